//! No message is lost, none is answered twice, and the token is in no log.

use std::collections::HashMap;

use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::api::{Api, TOKEN};
use crate::bot::Bot;

fn numbers(count: usize) -> Vec<String> {
    (1..=count).map(|number| number.to_string()).collect()
}

#[test]
fn a_poll_that_waits_does_not_hold_the_stop() {
    let (api, state) = (Api::start(), TempDir::new().expect("a directory"));
    let bot = Bot::start(&api.url, state.path());
    api.until_polls(1);
    // The poll would last forever.
    bot.stop();
    assert_eq!(api.echoes(), [""; 0]);
}

#[test]
fn what_was_fetched_is_answered_before_the_end_and_the_offset_is_kept() {
    let (api, state) = (Api::start(), TempDir::new().expect("a directory"));
    for text in numbers(5) {
        api.write(text);
    }
    api.batch(3);
    api.hold(true);
    let bot = Bot::start(&api.url, state.path());
    // In the middle of the first of three.
    api.until_echoes(1);
    bot.signal(Signal::TERM);
    api.hold(false);
    bot.wait_for("handled 3");
    let (status, log) = bot.end();
    assert_eq!(status.code(), Some(0), "{log}");
    assert_eq!(api.echoes(), numbers(3));
    let bot = Bot::start(&api.url, state.path());
    bot.wait_for("handled 5");
    bot.stop();
    assert_eq!(api.echoes(), numbers(5));
    assert_eq!(api.polls()[..2], [None, Some(4)]);
}

/// Stopped again and again, at whatever instant it is, in the middle of a busy chat.
#[test]
fn restarts_lose_nothing_and_repeat_nothing() {
    let proving = std::env::var_os("ADIEU_PROVE").is_some();
    let (stops, each) = if proving { (300, 7) } else { (12, 7) };
    let (api, state) = (Api::start(), TempDir::new().expect("a directory"));
    api.batch(3);
    for text in numbers(stops * each) {
        api.write(text);
    }
    for stop in 1..=stops {
        let bot = Bot::start(&api.url, state.path());
        bot.wait_for("ready");
        // Not even begun, in the middle, or just done: by the number of echoes it waits for.
        api.until_echoes((stop - 1) * each / 2 + stop % 4);
        bot.stop();
    }
    let bot = Bot::start(&api.url, state.path());
    api.until_echoes(stops * each);
    bot.stop();
    assert_eq!(api.echoes(), numbers(stops * each));
}

/// After a kill, at most the message that was being handled is answered again.
#[test]
fn a_kill_repeats_at_most_the_message_in_progress() {
    let proving = std::env::var_os("ADIEU_PROVE").is_some();
    let (kills, each) = if proving { (200, 5) } else { (8, 5) };
    let (api, state) = (Api::start(), TempDir::new().expect("a directory"));
    for text in numbers(kills * each) {
        api.write(text);
    }
    for kill in 1..=kills {
        let bot = Bot::start(&api.url, state.path());
        api.until_echoes(kill * each / 2);
        bot.signal(Signal::KILL);
        bot.end();
    }
    let bot = Bot::start(&api.url, state.path());
    bot.wait_for(&format!("handled {}", kills * each));
    bot.stop();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for echo in api.echoes() {
        *counts.entry(echo).or_default() += 1;
    }
    assert_eq!(counts.len(), kills * each, "none is lost");
    let repeats = api.echoes().len() - kills * each;
    println!("{kills} kills: {repeats} messages answered again");
    assert!(repeats <= kills, "{repeats} repeats after {kills} kills");
}

#[test]
fn an_api_in_trouble_is_asked_again_and_no_message_suffers() {
    let (api, state) = (Api::start(), TempDir::new().expect("a directory"));
    let patience = json!({"ok": false, "error_code": 429, "description": "Too Many Requests: retry after 1",
        "parameters": {"retry_after": 1}});
    api.mishap("getUpdates", 502, json!("bad gateway"));
    api.mishap("getUpdates", 429, patience.clone());
    api.mishap(
        "sendMessage",
        500,
        json!({"ok": false, "error_code": 500, "description": "Internal"}),
    );
    api.mishap("sendMessage", 429, patience);
    // The third message has no answer; that does not hold up the fourth.
    for text in numbers(2) {
        api.write(text);
    }
    let bot = Bot::start(&api.url, state.path());
    bot.wait_for("handled 2");
    let blocked = "Forbidden: bot was blocked by the user";
    let forbidden = json!({"ok": false, "error_code": 403, "description": blocked});
    api.mishap("sendMessage", 403, forbidden);
    api.write("3");
    api.write("4");
    bot.wait_for("handled 4");
    let log = bot.stop();
    assert_eq!(api.echoes(), ["1", "2", "4"]);
    assert!(
        log.contains("502") && log.contains("retry after 1") && log.contains(blocked),
        "{log}"
    );
    assert!(log.contains("an update is skipped"), "{log}");
    assert!(!log.contains(TOKEN), "{log}");
}

#[test]
fn an_api_that_is_away_is_no_spin_and_no_leak() {
    let state = TempDir::new().expect("a directory");
    let probe = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = probe.local_addr().expect("an address");
    drop(probe);
    let bot = Bot::start(&format!("http://{address}/bot{TOKEN}"), state.path());
    bot.wait_for("ready");
    let log = bot.stop();
    assert!(!log.contains(TOKEN), "{log}");
    assert!(log.matches("asking again").count() <= 5, "{log}");
}

#[test]
fn what_cannot_work_is_said() {
    let (api, state) = (Api::start(), TempDir::new().expect("a directory"));
    let wrong = api.url.replace(TOKEN, "999:another-secret");
    let (status, log) = Bot::start(&wrong, state.path()).end();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("does not know this token"), "{log}");
    assert!(!log.contains("another-secret"), "{log}");

    let (status, log) = Bot::start("no address:with-a-secret", state.path()).end();
    assert_eq!(status.code(), Some(2), "{log}");
    assert!(log.contains("--api is not an address"), "{log}");
    assert!(!log.contains("with-a-secret"), "{log}");

    let file = state.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let (status, log) = Bot::start(&api.url, &file).end();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains(file.to_str().expect("a path")), "{log}");
    assert!(log.contains("it is a file"), "{log}");

    let first = Bot::start(&api.url, state.path());
    first.wait_for("ready");
    let (status, log) = Bot::start(&api.url, state.path()).end();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("in use by process"), "{log}");
    first.stop();
}
