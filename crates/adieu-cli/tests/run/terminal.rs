//! At a terminal: who hears Ctrl-C, and who may read.

use std::process::Command;

use crate::support::ADIEU;

/// Runs the command at a terminal of its own and talks to it: what is to come, and what is typed then.
const TALK: &str = r#"
import os, pty, signal, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1].split() + sys.argv[4:])
signal.alarm(50)
heard = b""
for line in sys.argv[3].split("|"):
    awaited, typed = line.split(">")
    while awaited.encode() not in heard:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            part = b""
        if not part:
            sys.exit(f"`{awaited}` never came: {heard}")
        heard += part
    heard = heard.split(awaited.encode(), 1)[1]
    os.write(terminal, typed.encode().decode("unicode_escape").encode())
if sys.argv[2] == "kill":
    os.kill(pid, signal.SIGTERM)
try:
    while os.read(terminal, 4096):
        pass
except OSError:
    pass
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

const ASKS: &str = "printf 'ask '; read x; echo got $x; exit 1";

fn talk(end: &str, words: &str, delay: &str) -> String {
    let restart = ["run", "--restart", "always", "--restart-delay", delay];
    let command = restart.into_iter().chain(["--", "sh", "-c", ASKS]);
    talk_to(ADIEU, end, words, command)
}

fn talk_to<'a>(
    program: &str,
    end: &str,
    words: &str,
    command: impl IntoIterator<Item = &'a str>,
) -> String {
    let output = Command::new("/usr/bin/python3")
        .args(["-c", TALK, program, end, words])
        .args(command)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The terminal that one life was given comes back with its end, and is the next one's for the asking.
#[test]
fn every_life_may_read_from_the_terminal() {
    let words = "ask >one\\n|got one>|ask >two\\n|got two>|ask >";
    talk("kill", words, "1ms");
}

/// Between two lives Ctrl-C is for us.
#[test]
fn an_interrupt_between_two_lives_is_heard() {
    let words = "ask >one\\n|got one>|start number 2 in>\\x03";
    assert_eq!(talk("wait", words, "30s"), "1");
}

/// Whatever its standard input is.
#[test]
fn a_command_may_ask_at_the_terminal_beside_its_input() {
    let asks = r#"printf "ask "; read x < /dev/tty; echo got $x; exit 3"#;
    let script = format!("exec {ADIEU} run -- sh -c '{asks}' < /dev/null");
    let code = talk_to("/bin/sh", "wait", "ask >one\\n|got one>", ["-c", &script]);
    assert_eq!(code, "3");
}

/// No shell is there that could continue it.
#[test]
fn a_suspended_command_goes_on_where_there_is_no_shell() {
    let asks = "read x; echo got $x; read x; echo got $x; exit 3";
    let words = "started>one\\n|got one>\\x1atwo\\n|got two>";
    let code = talk_to(ADIEU, "wait", words, ["run", "--", "sh", "-c", asks]);
    assert_eq!(code, "3");
}

/// The shell has its prompt back, and the command the terminal when the shell has it go on.
#[test]
fn a_suspended_command_goes_on_with_its_job() {
    let asks = "read x; echo got $x; read x; echo got $x; exit 3";
    let words = format!(
        "$ >{ADIEU} run -- sh -c '{asks}'\\n|started>one\\n|got one>\\x1a|Stopped>|$ >fg\\n|run -- sh>two\\n|got two>\
         |$ >exit $?\\n"
    );
    let shell = ["-c", "PS1='$ ' exec bash --norc --noprofile -i"];
    assert_eq!(talk_to("/bin/sh", "wait", &words, shell), "3");
}
