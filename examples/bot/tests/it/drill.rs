//! The whole drill in the middle of a busy chat; then the server is asked what it has seen.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use adieu_drill::report::{Level, Outcome, Verdict};
use adieu_drill::{Drill, Ready};
use tempfile::TempDir;

use crate::api::Api;
use crate::bot::Bot;

/// Of what the chat has written, so much is not answered yet.
const AHEAD: usize = 40;

/// Always has something for the bot to read, a few batches of it: what arrives while it is down it has to answer in
/// the end. Gives the number of the last message.
fn chat(api: &Api) -> impl FnOnce() -> usize {
    let (api, over) = (api.clone(), Arc::new(AtomicBool::new(false)));
    let ours = Arc::clone(&over);
    let writer = thread::spawn(move || {
        let mut count = 0;
        while !ours.load(Ordering::Acquire) {
            if api.unconfirmed() < AHEAD {
                count += 1;
                api.write(count.to_string());
            }
            // The pace of the chat; nothing depends on it.
            thread::sleep(Duration::from_millis(20));
        }
        count
    });
    move || {
        over.store(true, Ordering::Release);
        writer.join().expect("it writes")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_check_that_applies_passes_and_no_message_is_lost() {
    let proving = std::env::var_os("ADIEU_PROVE").is_some();
    // As many as the check of the state has for a program that is killed.
    let (level, kills) = if proving {
        (Level::Full, 24)
    } else {
        (Level::Default, 8)
    };
    let (api, state) = (Api::start(), TempDir::new().expect("a directory"));
    api.batch(10);
    let quiet = chat(&api);
    let folder = state.path().to_str().expect("a plain name");
    let offset = format!("{folder}/offset.json");
    let ledger = format!(r#"sed -n 's/.*"value": \([0-9]*\).*/\1/p' {offset} | xargs seq"#);
    let bot = env!("CARGO_BIN_EXE_example-bot");
    let report = Drill::command([bot, "--state", folder])
        .env("BOT_API", &api.url)
        .ready(Ready::Line("ready".to_owned()))
        .state_file(&offset)
        .ledger(ledger)
        .level(level)
        .run()
        .await
        .expect("it can be drilled");
    assert_eq!(report.verdict, Verdict::Passed, "{report:#?}");
    for id in ["exit-code", "signal-storm", "state-intact", "resume"] {
        let check = report.checks.iter().find(|check| check.id == id);
        let outcome = check.map(|check| check.outcome);
        assert_eq!(outcome, Some(Outcome::Passed), "{id}: {report:#?}");
    }

    // One more, which no bot can have answered yet: the drill's own bots may have answered all before it.
    let last = quiet() + 1;
    api.write(last.to_string());
    let bot = Bot::start(&api.url, state.path());
    bot.wait_for(&format!("handled {last}"));
    bot.stop();
    let mut times: HashMap<String, usize> = HashMap::new();
    for echo in api.echoes() {
        *times.entry(echo).or_default() += 1;
    }
    let lost = (1..=last).filter(|number| !times.contains_key(&number.to_string()));
    assert_eq!(lost.count(), 0, "of {last} messages");
    let twice: usize = times.values().map(|times| times - 1).sum();
    println!("{last} messages: lost 0, answered twice {twice} of at most {kills}");
    assert!(twice <= kills, "{twice} of at most {kills}");
}
