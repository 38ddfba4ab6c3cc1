//! `add_signal_handler`, which the loops of Windows do not have.

mod support;

use support::Project;

const CALL: &str = "import asyncio\nimport signal\nasync def main():\n    stop = asyncio.Event()\n    loop = asyncio.get_running_loop()\n    loop.add_signal_handler(signal.SIGINT, stop.set)\n    await stop.wait()\n";
const FOR_WINDOWS: &str = "import sys\nif sys.platform == 'win32':\n    PATH = 'C:/'\n";

#[test]
fn a_program_that_has_code_for_windows_is_told() {
    for other in [
        FOR_WINDOWS,
        "import os\nX = os.name == \"nt\"\n",
        "import platform\nX = platform.system() == 'Windows'\n",
        "import asyncio\nP = asyncio.WindowsSelectorEventLoopPolicy\n",
    ] {
        let project = Project::new()
            .file("app/main.py", CALL)
            .file("app/deep/other.py", other);
        assert_eq!(project.told(), ["app/main.py:6 ADP505"], "{other}");
    }
}

#[test]
fn each_file_is_told_once() {
    let twice = format!("{CALL}async def again(loop, f):\n    loop.add_signal_handler(15, f)\n");
    let project = Project::new()
        .file("main.py", &twice)
        .file("other.py", FOR_WINDOWS);
    assert_eq!(project.told(), ["main.py:6 ADP505"]);
}

#[test]
fn a_program_for_linux_alone_is_not_told() {
    let alone = Project::new().file("app/main.py", CALL);
    assert!(alone.told().is_empty(), "{:?}", alone.told());
    let elsewhere = Project::new()
        .file("service/main.py", CALL)
        .file("tools/build.py", FOR_WINDOWS)
        .file("setup_helper.py", FOR_WINDOWS);
    assert!(elsewhere.told().is_empty(), "{:?}", elsewhere.told());
    let tested = Project::new()
        .file("app/main.py", CALL)
        .file("app/tests/test_paths.py", FOR_WINDOWS);
    assert!(tested.told().is_empty(), "{:?}", tested.told());
}

#[test]
fn a_guard_is_enough() {
    for guarded in [
        CALL.replace(
            "    loop.add_signal_handler(signal.SIGINT, stop.set)\n",
            "    try:\n        loop.add_signal_handler(signal.SIGINT, stop.set)\n    except NotImplementedError:\n        pass\n",
        ),
        CALL.replace(
            "    loop.add",
            "    if sys.platform != 'win32':\n        loop.add",
        ),
        CALL.replace("    loop.add", "    if os.name == 'posix':\n        loop.add"),
        CALL.replace(
            "    loop.add",
            "    with contextlib.suppress(NotImplementedError):\n        loop.add",
        ),
        format!("import uvloop\n{CALL}"),
    ] {
        let project = Project::new()
            .file("app/main.py", &guarded)
            .file("app/other.py", FOR_WINDOWS);
        assert!(project.told().is_empty(), "{guarded}: {:?}", project.told());
    }
}
