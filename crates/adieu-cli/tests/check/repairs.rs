//! What `--fix` changes still does what it did; what cannot be changed safely is left alone.

use crate::support::{BLOCKS, Test};

#[test]
fn fixes_are_applied_and_what_is_left_is_said() {
    let test = Test::new()
        .file("app.py", BLOCKS)
        .file(
            "Dockerfile",
            "FROM python:3.13\nCOPY start.sh .\nCMD python app.py --port 80\n",
        )
        .file(
            "Dockerfile.script",
            "FROM python:3.13\nENTRYPOINT [\"./start.sh\"]\n",
        )
        .file("start.sh", "#!/bin/sh\nset -e\npython app.py\n")
        .file("old.py", "x = 1  # adieu: ignore[ADP101] long gone\n");
    let ran = test.run(&["--fix", "--unsafe-fixes"]);
    assert_eq!(ran.code(), 1);
    assert_eq!(ran.out().lines().count(), 2, "{}", ran.out());
    assert!(test.read("app.py").contains("    await asyncio.sleep(2)\n"));
    assert!(
        test.read("Dockerfile")
            .ends_with("CMD [\"python\", \"app.py\", \"--port\", \"80\"]\n")
    );
    assert!(test.read("start.sh").ends_with("\nexec python app.py\n"));
    assert_eq!(test.read("old.py"), "x = 1\n");
    let again = test.run(&["--fix", "--unsafe-fixes"]);
    assert_eq!(again.out(), ran.out(), "a second run has nothing to repair");
}

/// A script that an image starts.
fn started(script: &str) -> Test {
    Test::new()
        .file(
            "Dockerfile",
            "FROM python:3.13\nENTRYPOINT [\"./start.sh\"]\n",
        )
        .file("start.sh", script)
        .file("lib.sh", "server() { python app.py; }\n")
}

/// What becomes of a script.
fn repaired(script: &str) -> String {
    let test = started(script);
    test.run(&["--fix"]);
    test.read("start.sh")
}

#[test]
fn a_plain_last_command_gets_its_exec() {
    for (script, after) in [
        (
            "#!/bin/sh\npython app.py\n",
            "#!/bin/sh\nexec python app.py\n",
        ),
        (
            "#!/bin/sh\npython app.py \\\n  --port 80\n",
            "#!/bin/sh\nexec python app.py \\\n  --port 80\n",
        ),
        ("#!/bin/sh\n\"$@\"\n", "#!/bin/sh\nexec \"$@\"\n"),
        (
            "#!/bin/sh\n. ./env\n/usr/bin/app\n",
            "#!/bin/sh\n. ./env\nexec /usr/bin/app\n",
        ),
        (
            "#!/bin/sh\nsetup() {\n  mkdir x\n}\nsetup\npython app.py\n",
            "#!/bin/sh\nsetup() {\n  mkdir x\n}\nsetup\nexec python app.py\n",
        ),
    ] {
        assert_eq!(repaired(script), after);
    }
}

#[test]
fn no_exec_where_it_would_break_the_script() {
    for (why, script) in [
        ("a function", "server() {\n  python app.py\n}\nserver\n"),
        (
            "a function with blanks",
            "server () {\n  python app.py\n}\nserver\n",
        ),
        (
            "a function by its keyword",
            "function server {\n  python app.py\n}\nserver --port 80\n",
        ),
        (
            "a function with its brace below",
            "server()\n{\n  python app.py\n}\nserver\n",
        ),
        (
            "a function on one line",
            "server() { python app.py; }\nserver\n",
        ),
        (
            "a function in a subshell",
            "server() (\n  python app.py\n)\nserver\n",
        ),
        (
            "a function in a branch",
            "server() {\n  python app.py\n}\ncase \"$1\" in\n  web)\n    shift\n    server\n    ;;\n  *)\n    exec python other.py\n    ;;\nesac\n",
        ),
        (
            "a function that may be the arguments",
            "server() {\n  python app.py\n}\n\"$@\"\n",
        ),
        (
            "a name that a sourced file may define",
            ". ./lib.sh\nserver\n",
        ),
        (
            "a name that a sourced file may define, bash",
            "source lib.sh\nserver\n",
        ),
        (
            "a name that an eval may define",
            "eval \"$SETUP\"\nserver\n",
        ),
        ("an alias", "alias server='python app.py'\nserver\n"),
        ("an assignment", "PORT=80 python app.py\n"),
        ("a built-in", "eval \"python app.py\"\n"),
        ("a built-in with a command", "command python app.py\n"),
        ("a keyword", "time python app.py\n"),
        ("a negation", "! python app.py\n"),
        ("a test", "[[ -f x ]]\n"),
        ("a group", "{ python app.py; }\n"),
        ("a subshell", "(python app.py)\n"),
        ("a pipe on the next line", "python app.py \\\n  | tee log\n"),
        (
            "more on the next line",
            "python app.py \\\n  && echo done\n",
        ),
        ("a pipe on the line before", "yes |\npython app.py\n"),
        (
            "a trap that is not first on its line",
            "set -e; trap 'rm -f pid' EXIT\npython app.py\n",
        ),
        ("children of the shell", "redis-server &\npython app.py\n"),
        (
            "a string over several lines",
            "sh -c \"\npython app.py\n\"\n",
        ),
        (
            "a string over several lines, single",
            "echo 'a\nb'\npython - 'x\npython app.py\n'\n",
        ),
    ] {
        let script = format!("#!/bin/bash\n{script}");
        assert_eq!(repaired(&script), script, "{why}");
    }
}

#[test]
fn a_function_that_ends_in_exec_is_no_finding() {
    for script in [
        "server() {\n  exec python app.py\n}\nserver\n",
        "server() {\n  if x; then\n    exec a\n  else\n    exec b\n  fi\n}\ncase \"$1\" in\n  server) server ;;\n  *) exec \"$@\" ;;\nesac\n",
        "function server {\n  exec python app.py\n}\nserver\n",
        "inner() {\n  exec python app.py\n}\nouter() {\n  inner\n}\nouter\n",
        "server() { exec python app.py; }\nserver\n",
    ] {
        let ran = started(&format!("#!/bin/bash\n{script}")).run(&[]);
        assert_eq!(ran.out(), "", "{script}");
    }
    let ran = started("#!/bin/bash\nserver() {\n  python app.py\n}\nserver\n").run(&[]);
    insta::assert_snapshot!(ran.out(), @"start.sh:5:1: ADD102 the script stays PID 1 above what its function `server` runs and keeps the signal: put `exec` before the last command of that function");
}

/// What becomes of an image.
fn built(dockerfile: &str) -> String {
    let test = Test::new()
        .file("Dockerfile", dockerfile)
        .file("good.sh", "#!/bin/sh\nexec python app.py\n")
        .file("bare.sh", "exec python app.py\n");
    test.run(&["--fix"]);
    test.read("Dockerfile")
}

#[test]
fn plain_words_become_a_list() {
    for (command, list) in [
        ("CMD python app.py", "CMD [\"python\", \"app.py\"]"),
        ("CMD ./good.sh", "CMD [\"./good.sh\"]"),
        (
            "CMD /usr/bin/app --x=1",
            "CMD [\"/usr/bin/app\", \"--x=1\"]",
        ),
        (
            "ENTRYPOINT python app.py",
            "ENTRYPOINT [\"python\", \"app.py\"]",
        ),
        (
            "ENTRYPOINT [\"tini\", \"--\"]\nCMD python app.py",
            "ENTRYPOINT [\"tini\", \"--\"]\nCMD [\"python\", \"app.py\"]",
        ),
    ] {
        assert_eq!(
            built(&format!("FROM python:3.13\n{command}\n")),
            format!("FROM python:3.13\n{list}\n")
        );
    }
}

#[test]
fn no_list_where_it_would_break_the_image() {
    for (why, lines) in [
        (
            "a script without a first line for the kernel",
            "CMD /app/bare.sh",
        ),
        (
            "a script without one, by its name",
            "COPY bare.sh /bin/\nCMD bare.sh",
        ),
        ("a script that is not in the project", "CMD /run.sh"),
        (
            "a file that was copied and is not known",
            "COPY bin/serve /usr/local/bin/\nCMD serve",
        ),
        ("a path that is not known", "CMD ./serve --port 80"),
        ("a variable", "CMD python app.py --port $PORT"),
        ("a redirection", "CMD python app.py 2>&1"),
        ("an assignment", "CMD PORT=80 python app.py"),
        ("several commands", "CMD migrate && python app.py"),
        ("a pattern", "CMD python app.py *.toml"),
        ("a built-in", "CMD ulimit -n 4096"),
        ("a keyword", "CMD time python app.py"),
        (
            "another shell",
            "SHELL [\"/bin/bash\", \"-lc\"]\nCMD python app.py",
        ),
        (
            "arguments that the shell form hides",
            "ENTRYPOINT python app.py\nCMD [\"--debug\"]",
        ),
        (
            "a script that reads its arguments",
            "ENTRYPOINT [\"./pass.sh\"]\nCMD python app.py",
        ),
    ] {
        let file = format!("FROM python:3.13\n{lines}\n");
        assert_eq!(built(&file), file, "{why}");
    }
}

#[test]
fn a_quoted_mark_is_no_comment_to_remove() {
    let script = "#!/bin/sh\necho \"# adieu: ignore[ADD102] text\"\nexec python app.py\n";
    assert_eq!(repaired(script), script);
    let python = "x = 1  # adieu: ignore[ADP101] long gone  # type: ignore\n";
    let test = Test::new().file("app.py", python);
    test.run(&["--fix"]);
    assert_eq!(test.read("app.py"), python);
}

/// `time.sleep` in a coroutine, and a comment that ignores nothing.
const BOTH: &str = "import time\n\nasync def f():\n    time.sleep(1)\n    x = 1  # adieu: ignore[ADP106] long gone\n    return x\n";

#[test]
fn a_diff_shows_what_a_fix_would_write_and_writes_nothing() {
    let test = Test::new().file("app.py", BOTH);
    let ran = test.run(&["--diff"]);
    assert_eq!(ran.code(), 1);
    insta::assert_snapshot!(ran.out(), @r"
    --- app.py
    +++ app.py
    @@ -2,5 +2,5 @@
     
     async def f():
         time.sleep(1)
    -    x = 1  # adieu: ignore[ADP106] long gone
    +    x = 1
         return x
    ");
    insta::assert_snapshot!(ran.err(), @r"
    note: 1 finding more repairable with --unsafe-fixes
    note: --fix would repair 1 finding in 1 file
    ");
    assert_eq!(test.read("app.py"), BOTH);
    let ran = test.run(&["--diff", "--unsafe-fixes"]);
    assert_eq!(ran.code(), 1);
    insta::assert_snapshot!(ran.err(), @"note: --fix --unsafe-fixes would repair 2 findings in 1 file");
    insta::assert_snapshot!(ran.out(), @r"
    --- app.py
    +++ app.py
    @@ -1,6 +1,6 @@
    -import time
    +import asyncio
     
     async def f():
    -    time.sleep(1)
    -    x = 1  # adieu: ignore[ADP106] long gone
    +    await asyncio.sleep(1)
    +    x = 1
         return x
    ");
    assert_eq!(test.read("app.py"), BOTH);
}

#[test]
fn a_diff_without_repairs_is_empty_and_zero_whatever_else_is_found() {
    let test = Test::new().file("app.py", BLOCKS);
    assert_eq!(test.run(&[]).code(), 1);
    let ran = test.run(&["--diff"]);
    assert_eq!((ran.code(), ran.out()), (0, String::new()));
    assert_eq!(test.run(&["--diff", "nowhere"]).code(), 2);
    for other in ["--fix", "--write-baseline", "--format=json"] {
        assert_eq!(test.run(&["--diff", other]).code(), 2, "{other}");
    }
}

/// `git apply` takes the diff, and makes the file that `--fix` writes.
#[cfg(unix)]
#[test]
fn a_diff_is_what_git_applies() {
    for text in [
        BOTH.to_owned(),
        BOTH.replace('\n', "\r\n"),
        BOTH.trim_end().to_owned(),
    ] {
        let (shown, fixed) = (
            Test::new().file("app.py", &text),
            Test::new().file("app.py", &text),
        );
        let diff = shown.run(&["--diff", "--unsafe-fixes"]).out();
        fixed.run(&["--fix", "--unsafe-fixes"]);
        assert_ne!(fixed.read("app.py"), text);
        let shown = shown.file("fix.patch", &diff);
        let patched = std::process::Command::new("git")
            .args(["apply", "-p0", "fix.patch"])
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env(
                "GIT_CEILING_DIRECTORIES",
                shown.path().parent().expect("a parent"),
            )
            .current_dir(shown.path())
            .status()
            .expect("git runs");
        assert!(patched.success());
        assert_eq!(shown.read("app.py"), fixed.read("app.py"));
    }
}

#[test]
fn what_may_change_the_program_needs_its_own_word() {
    let test = Test::new().file("app.py", BOTH);
    let ran = test.run(&["--fix"]);
    assert_eq!(ran.code(), 1);
    assert!(
        test.read("app.py")
            .contains("    time.sleep(1)\n    x = 1\n")
    );
    assert!(
        ran.err().contains("1 repairable with --fix --unsafe-fixes"),
        "{}",
        ran.err()
    );
    let ran = test.run(&["--fix", "--unsafe-fixes"]);
    assert_eq!((ran.code(), ran.out()), (0, String::new()));
    assert_eq!(
        test.read("app.py"),
        "import asyncio\n\nasync def f():\n    await asyncio.sleep(1)\n    x = 1\n    return x\n"
    );
}

#[test]
fn two_sleeps_need_one_import() {
    let test = Test::new().file(
        "app.py",
        "import time\n\nasync def f():\n    time.sleep(1)\n    time.sleep(2)\n\ndef g():\n    return time.monotonic()\n",
    );
    test.run(&["--fix", "--unsafe-fixes"]);
    assert_eq!(
        test.read("app.py"),
        "import asyncio\nimport time\n\nasync def f():\n    await asyncio.sleep(1)\n    await asyncio.sleep(2)\n\ndef g():\n    return time.monotonic()\n"
    );
}

#[test]
fn no_await_of_asyncio_where_another_loop_may_run_or_the_name_is_taken() {
    for first in ["import trio\n", "import anyio\n", "asyncio = None\n"] {
        let text = format!("{first}import time\n\nasync def f():\n    time.sleep(1)\n");
        let test = Test::new().file("app.py", &text);
        test.run(&["--fix", "--unsafe-fixes"]);
        assert_eq!(test.read("app.py"), text);
    }
}

#[test]
fn the_explanation_says_how_a_repair_is_asked_for() {
    for (rule, class) in [
        ("ADD101", "Safe (`--fix`)"),
        ("ADD102", "Safe (`--fix`)"),
        ("ADP101", "Unsafe (`--fix --unsafe-fixes`)"),
        ("ADX101", "Safe (`--fix`)"),
    ] {
        let page = Test::new().run(&["--explain", rule]).out();
        assert!(page.contains(&format!("## Repair\n\n{class}")), "{page}");
    }
}
