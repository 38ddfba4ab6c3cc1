//! Restarts after an end, and zero-downtime restarts.

use adieu_testkit::ChildProcess;
use rustix::process::Signal;

use crate::support::{ADIEU, Wrapper, kill, run, state};

#[test]
fn a_failure_is_borne_so_often() {
    let options = [
        "--restart",
        "on-failure",
        "--restart-limit",
        "3",
        "--restart-delay",
        "1ms",
    ];
    let (code, out, said) = run(&options, &["sh", "-c", "echo started; exit 3"]);
    assert_eq!((code, out.lines().count()), (3, 4), "{said}");
    assert!(said.contains("start number 4 in "), "{said}");
    let gave_up = "giving up: the restart limit is reached, 3 within 60s";
    assert!(said.contains(gave_up), "{said}");
    // A good end is the end.
    let (code, out, _) = run(&options, &["echo", "started"]);
    assert_eq!((code, out.as_str()), (0, "started\n"));
    // Unless it is always to run; then giving up is a failure.
    let options = [
        "--restart",
        "always",
        "--restart-limit",
        "2",
        "--restart-delay",
        "1ms",
    ];
    let (code, out, said) = run(&options, &["echo", "started"]);
    assert_eq!((code, out.lines().count()), (1, 3), "{said}");
}

/// A command that goes away between two starts is named each time, and so is one that cannot follow.
#[tokio::test]
async fn a_command_that_went_away_is_named() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("server");
    let install = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, all).unwrap();
    };
    let command = path.to_str().unwrap();
    let no_file = format!("cannot start {command}: there is no such file");
    install("#!/bin/sh\nrm \"$0\"\nexit 3\n");
    let again = ["--restart", "on-failure", "--restart-delay", "1ms"];
    let (code, _, said) = run(&again, &[command]);
    assert_eq!((code, said.matches(&no_file).count()), (3, 5), "{said}");
    install(&format!("#!/usr/bin/python3\n{SERVER}"));
    let mut wrapper = Wrapper::start(&["--listen", "tcp:127.0.0.1:0"], &[command]);
    let first = wrapper.line("pid ").await;
    wrapper.says(" ready after ").await;
    std::fs::remove_file(&path).unwrap();
    wrapper.signal(Signal::HUP);
    let said = wrapper.says("the old process stays").await;
    assert!(said.contains(&no_file), "{said}");
    let first: i32 = first.split(' ').next().unwrap().parse().unwrap();
    assert!(state(first).is_some());
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.code().await.0, 0);
}

#[tokio::test]
async fn a_stop_is_not_followed_by_a_start() {
    let script = "trap 'exit 3' TERM; sleep 1000 & echo up; while :; do wait; done";
    let mut wrapper = Wrapper::start(&["--restart", "always"], &["sh", "-c", script]);
    wrapper.line("up").await;
    wrapper.signal(Signal::TERM);
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 3, "{said}");
    assert_eq!(said.matches(" started (pid ").count(), 1, "{said}");
}

/// A server of a few lines that takes its socket as systemd hands it over.
pub(crate) const SERVER: &str = r#"
import os, signal, socket, sys, threading
assert os.environ["LISTEN_PID"] == str(os.getpid()), os.environ["LISTEN_PID"]
assert os.environ["LISTEN_FDS"] == "1" and os.environ["EINHORN_FDS"] == "3"
assert os.environ["SERVER_STARTER_PORT"].endswith("=3")
listener = socket.socket(fileno=3)
listener.settimeout(None)
print("pid", os.getpid(), os.environ["SERVER_STARTER_PORT"].rsplit("=")[0], flush=True)
busy = set()
def serve(peer):
    with peer:
        text = b""
        while b"\r\n\r\n" not in text:
            part = peer.recv(4096)
            if not part:
                return
            text += part
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n")
class Stop(Exception):
    pass
def stop(*_):
    raise Stop
signal.signal(signal.SIGTERM, stop)
threads = []
try:
    while True:
        peer, _ = listener.accept()
        thread = threading.Thread(target=serve, args=(peer,))
        thread.start()
        threads = [it for it in threads if it.is_alive()] + [thread]
except Stop:
    pass
for thread in threads:
    thread.join()
"#;

#[tokio::test]
async fn the_next_generation_takes_over_when_it_is_ready() {
    let options = ["--listen", "web=tcp:127.0.0.1:0"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", SERVER]);
    let pid = |line: String| -> i32 { line.split(' ').next().unwrap().parse().unwrap() };
    let first = pid(wrapper.line("pid ").await);
    wrapper.signal(Signal::HUP);
    let second = pid(wrapper.line("pid ").await);
    assert_ne!(first, second);
    wrapper
        .says(&format!("the old process (pid {first}) ended"))
        .await;
    assert_eq!((state(first), state(second).is_some()), (None, true));
    wrapper.signal(Signal::TERM);
    let (_, said) = wrapper.code().await;
    assert!(
        said.contains(&format!("pid {second} serves, pid {first} is asked to end")),
        "{said}"
    );
}

/// One that is deaf is killed when its time is up; one that ends takes what it left in its group along.
#[tokio::test]
async fn an_old_generation_goes_with_all_it_started() {
    const FIRST: &str = "os.environ['SERVER_STARTER_GENERATION'] == '1'";
    let server = |at_stop: &str| {
        let leaves = "print('left', subprocess.Popen(['sleep', '1000']).pid, flush=True)";
        let ends = SERVER.replace(
            "(signal.SIGTERM, stop)",
            &format!("(signal.SIGTERM, {at_stop})"),
        );
        format!("import os, signal, subprocess\nif {FIRST}: {leaves}\n{ends}")
    };
    let deaf = format!("signal.SIG_IGN if {FIRST} else stop");
    for (at_stop, how) in [
        (deaf.as_str(), "was ended by SIGKILL"),
        ("stop", "ended with exit code 0"),
    ] {
        let grace = if how.ends_with("KILL") {
            "300ms"
        } else {
            "40s"
        };
        let options = ["--listen", "tcp:127.0.0.1:0", "--grace", grace];
        let command = ["/usr/bin/python3", "-c", &server(at_stop)];
        let mut wrapper = Wrapper::start(&options, &command);
        let left: i32 = wrapper.line("left ").await.parse().unwrap();
        wrapper.line("pid ").await;
        wrapper.signal(Signal::HUP);
        let said = wrapper.says("the old process (pid ").await;
        assert!(said.ends_with(how), "{said}");
        assert_eq!(state(left), None, "{how}");
        wrapper.signal(Signal::TERM);
        wrapper.end().await;
    }
}

/// A request that comes while a new process is starting is for one more: what it starts from has changed since.
#[tokio::test]
async fn a_restart_requested_during_a_restart_is_kept() {
    let folder = tempfile::TempDir::new().unwrap();
    let go = folder.path().join("go");
    let waits = format!(
        "import os\nif os.environ['SERVER_STARTER_GENERATION'] == '2':\n    os.mkfifo({go:?})\n    \
         print('starting', flush=True)\n    open({go:?}).read()\n{SERVER}"
    );
    let options = ["--listen", "tcp:127.0.0.1:0"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", &waits]);
    wrapper.line("pid ").await;
    wrapper.signal(Signal::HUP);
    wrapper.line("starting").await;
    wrapper.signal(Signal::HUP);
    wrapper.says("one more restart follows").await;
    std::fs::write(&go, "").unwrap();
    for _ in 0..2 {
        wrapper.line("pid ").await;
        wrapper.says(" serves, pid ").await;
    }
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

/// Also if the old process dies meanwhile, and the next one takes over before its time.
#[tokio::test]
async fn a_requested_restart_outlives_the_old_process() {
    let script = "echo pid $$; exec sleep 1000";
    let options = ["--listen", "tcp:127.0.0.1:0", "--ready", "notify"];
    let mut wrapper = Wrapper::start(&options, &["sh", "-c", script]);
    let first = wrapper.line("pid ").await.parse().unwrap();
    wrapper.signal(Signal::HUP);
    let second = wrapper.line("pid ").await;
    wrapper.signal(Signal::HUP);
    wrapper.says("one more restart follows").await;
    kill(first, Signal::KILL);
    wrapper.says("takes over before it is ready").await;
    let third = wrapper.line("pid ").await;
    assert_ne!(second, third);
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.code().await.0, 143);
}

/// What keeps serving in the pre-stop is the present generation.
#[tokio::test]
async fn a_restart_requested_during_the_pre_stop_is_too_late() {
    let options = ["--listen", "tcp:127.0.0.1:0", "--pre-stop", "50s"];
    let options = [&options[..], &["--grace", "55s"]].concat();
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", SERVER]);
    wrapper.says(" ready after ").await;
    wrapper.signal(Signal::TERM);
    wrapper.says("serving for another").await;
    wrapper.signal(Signal::HUP);
    wrapper.says("no new process is started").await;
    // The test does not wait for the rest of it.
    wrapper.signal(Signal::INT);
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 0, "{said}");
}

/// A new process that is not ready when the stop comes has nothing to finish, and does not hold it up.
#[tokio::test]
async fn a_stop_does_not_wait_for_the_next_generation() {
    let deaf = format!(
        "import os, signal\nif os.environ['SERVER_STARTER_GENERATION'] == '2':\n    \
         signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    print('starting', flush=True)\n    \
         signal.pause()\n{SERVER}"
    );
    let options = ["--listen", "tcp:127.0.0.1:0", "--grace", "50s"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", &deaf]);
    wrapper.line("pid ").await;
    wrapper.signal(Signal::HUP);
    wrapper.line("starting").await;
    wrapper.signal(Signal::TERM);
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains("are over: sending SIGKILL"), "{said}");
}

/// In all three dialects, in the order of the options.
#[test]
fn several_sockets_are_told_by_number_and_name() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("api.sock");
    let api = format!("api=unix:{}", path.display());
    let options = ["--listen", &api, "--listen", "web=tcp:127.0.0.1:0"];
    let tells = "echo $LISTEN_FDS $LISTEN_FDNAMES $EINHORN_FDS $EINHORN_FD_COUNT $EINHORN_FD_0 $EINHORN_FD_1; \
                 echo $SERVER_STARTER_PORT";
    let (code, out, said) = run(&options, &["sh", "-c", tells]);
    assert_eq!(code, 0, "{said}");
    let (first, second) = out.split_once('\n').unwrap();
    assert_eq!(first, "2 api:web 3 4 2 3 4");
    let starter = format!("{}=3;127.0.0.1:", path.display());
    assert!(
        second.starts_with(&starter) && second.ends_with("=4\n"),
        "{second}"
    );
}

/// No client connects through the file of a Unix socket while the command ends; the file is gone before the signal.
#[tokio::test]
async fn the_file_of_a_socket_goes_first() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("web.sock");
    let path = path.to_str().unwrap();
    let script = format!(
        "trap 'test -e {path} && echo file there || echo file gone; exit 0' TERM; echo file; test -e {path} && \
         echo up; while :; do sleep 0.01; done"
    );
    let listen = format!("unix:{path}");
    let mut wrapper = Wrapper::start(&["--listen", &listen], &["sh", "-c", &script]);
    wrapper.line("up").await;
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.line("file ").await, "gone");
    assert_eq!(wrapper.code().await.0, 0);
}

/// What a command that failed has left in its group is ended before the next start: it may hold a port or a lock.
#[test]
fn what_a_failure_left_is_ended_before_the_next_start() {
    let folder = tempfile::TempDir::new().unwrap();
    let noted = folder.path().join("left");
    let noted = noted.display();
    let script = format!(
        "if [ -e {noted} ]; then kill -0 $(cat {noted}) 2>&- && echo there || echo gone; exit 0; fi; \
         sleep 1000 & echo $! > {noted}; exit 3"
    );
    let again = ["--restart", "on-failure", "--restart-delay", "1ms"];
    let (code, out, said) = run(&again, &["sh", "-c", &script]);
    assert_eq!((code, out.as_str()), (0, "gone\n"), "{said}");
}

#[tokio::test]
async fn a_changed_file_requests_a_restart() {
    let folder = tempfile::TempDir::new().unwrap();
    let watched = folder.path().to_str().unwrap();
    let options = ["--listen", "tcp:127.0.0.1:0", "--watch", watched];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", SERVER]);
    let first = wrapper.line("pid ").await;
    // Setup goes on while the command starts.
    wrapper.says(&format!("watching {watched}")).await;
    std::fs::write(folder.path().join("app.py"), "new").unwrap();
    assert_ne!(wrapper.line("pid ").await, first);
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

/// Kubernetes swaps a link behind the file, and then the next one.
#[tokio::test]
async fn a_swapped_link_requests_a_restart() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let swap = |version: &str| {
        std::fs::create_dir(path(version)).unwrap();
        std::fs::write(path(version).join("shop.toml"), version).unwrap();
        std::os::unix::fs::symlink(version, path("..data_tmp")).unwrap();
        std::fs::rename(path("..data_tmp"), path("..data")).unwrap();
    };
    swap("..v1");
    std::os::unix::fs::symlink("..data/shop.toml", path("shop.toml")).unwrap();
    let file = path("shop.toml");
    let file = file.to_str().unwrap();
    let options = ["--listen", "tcp:127.0.0.1:0", "--watch", file];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", SERVER]);
    let mut before = wrapper.line("pid ").await;
    wrapper.says(&format!("watching {file}")).await;
    for version in ["..v2", "..v3"] {
        swap(version);
        let now = wrapper.line("pid ").await;
        assert_ne!(now, before);
        wrapper.says(" serves, pid ").await;
        before = now;
    }
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

/// Under `nohup` SIGHUP never comes: that is said, with what does the same.
#[tokio::test]
async fn an_ignored_hangup_is_told_of() {
    let folder = tempfile::TempDir::new().unwrap();
    let start = |options: &str| {
        let script =
            format!("trap '' HUP; exec \"$0\" run {options} -- /usr/bin/python3 -c \"$1\"");
        ChildProcess::start("sh", ["-c", &script, ADIEU, SERVER]).unwrap()
    };
    let watched = format!(
        "--listen tcp:127.0.0.1:0 --watch {}",
        folder.path().display()
    );
    for (options, instead) in [
        ("--listen tcp:127.0.0.1:0", "or give --watch FILE"),
        (&watched, "a change of what is watched still does"),
    ] {
        let mut wrapper = Wrapper {
            subject: start(options),
        };
        let said = wrapper.says("SIGHUP is ignored, as under nohup").await;
        assert!(said.contains(instead), "{said}");
        wrapper.line("pid ").await;
        wrapper.signal(Signal::TERM);
        assert_eq!(wrapper.code().await.0, 0);
    }
    // Without sockets it would not have started anything, and no notification is sent.
    let mut wrapper = Wrapper {
        subject: ChildProcess::start(
            "sh",
            ["-c", "trap '' HUP; exec \"$0\" run -- echo up", ADIEU],
        )
        .unwrap(),
    };
    wrapper.line("up").await;
    let (code, said) = wrapper.code().await;
    assert_eq!((code, said.contains("SIGHUP")), (0, false), "{said}");
}

/// Without sockets SIGHUP is the command's.
#[tokio::test]
async fn a_hangup_without_sockets_is_passed_on() {
    let script =
        "trap 'echo heard; kill $!; exit 0' HUP; sleep 1000 & echo up; while :; do wait; done";
    let mut wrapper = Wrapper::start(&[], &["sh", "-c", script]);
    wrapper.line("up").await;
    wrapper.signal(Signal::HUP);
    wrapper.line("heard").await;
    assert_eq!(wrapper.code().await.0, 0);
}
