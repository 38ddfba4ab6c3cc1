//! `--file`: several commands, each with the options that `adieu run` has for one, under the same names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adieu::platform::Platform;
use serde::Deserialize;

use super::args::{RestartWhen, RunArgs};
use super::options::CommandOptions;

/// No file of commands is longer.
const MOST_BYTES: u64 = 1024 * 1024;
/// Workers of all commands together.
const MOST_WORKERS: usize = 512;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandFile {
    #[serde(default, rename = "command")]
    commands: Vec<FileEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileEntry {
    run: Vec<String>,
    name: Option<String>,
    #[serde(default)]
    after: Vec<String>,
    #[serde(default)]
    once: bool,
    workers: Option<u8>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    signal: Vec<String>,
    #[serde(default)]
    group: bool,
    #[serde(default)]
    no_cloak: bool,
    #[serde(default)]
    listen: Vec<String>,
    front: Option<String>,
    front_headers: Option<String>,
    #[serde(default)]
    watch: Vec<PathBuf>,
    ready: Option<String>,
    ready_timeout: Option<String>,
    probe_http: Option<String>,
    probe_tcp: Option<String>,
    probe_command: Option<String>,
    probe_timeout: Option<String>,
    watchdog: Option<String>,
    restart: Option<RestartWhen>,
    restart_limit: Option<u32>,
    restart_window: Option<String>,
    restart_delay: Option<String>,
    #[serde(default)]
    success_code: Vec<u8>,
}

/// The commands of a file. `args` has the options of the whole run.
pub(super) fn read(
    path: &Path,
    args: &RunArgs,
    platform: Platform,
) -> Result<Vec<CommandOptions>, String> {
    if !args.command.is_empty() {
        return Err("--file has the commands: leave out the one on the command line".to_owned());
    }
    if let Some(option) = of_one_command(args) {
        return Err(format!(
            "{option} belongs to one command: with --file, write it into the file as `{}`",
            option.trim_start_matches('-')
        ));
    }
    let shown = path.display();
    let unreadable = |error| format!("--file {shown}: {error}");
    let file = File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    // One more, to see that there is more.
    let mut file = file.take(MOST_BYTES + 1);
    let read = file.read_to_string(&mut text).map_err(unreadable)?;
    if read as u64 > MOST_BYTES {
        return Err(format!("--file {shown}: longer than {MOST_BYTES} bytes"));
    }
    parse(&text, args, platform).map_err(|problem| format!("--file {shown}: {problem}"))
}

/// An option on the command line that is of a command of the file.
fn of_one_command(args: &RunArgs) -> Option<&'static str> {
    let given = [
        (args.workers != 1, "--workers"),
        (!args.signals.is_empty(), "--signal"),
        (!args.rewrite.is_empty(), "--rewrite"),
        (args.group, "--group"),
        (args.no_cloak, "--no-cloak"),
        (!args.listen.is_empty(), "--listen"),
        (args.front.is_some(), "--front"),
        (args.front_headers.is_some(), "--front-headers"),
        (!args.watch.is_empty(), "--watch"),
        (args.ready.is_some(), "--ready"),
        (args.probe_http.is_some(), "--probe-http"),
        (args.probe_tcp.is_some(), "--probe-tcp"),
        (args.probe_command.is_some(), "--probe-command"),
        (args.watchdog.is_some(), "--watchdog"),
        (args.restart != RestartWhen::Never, "--restart"),
        (args.restart_limit.is_some(), "--restart-limit"),
        (args.restart_window.is_some(), "--restart-window"),
        (args.restart_delay.is_some(), "--restart-delay"),
        (!args.success_codes.is_empty(), "--success-code"),
    ];
    let mut given = given.into_iter();
    given.find(|(given, _)| *given).map(|(_, option)| option)
}

fn parse(text: &str, args: &RunArgs, platform: Platform) -> Result<Vec<CommandOptions>, String> {
    let file: CommandFile =
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    if file.commands.is_empty() {
        return Err("no command: begin one with [[command]], and give it `run`".to_owned());
    }
    let mut commands = Vec::new();
    let mut after = Vec::new();
    for entry in file.commands {
        after.push(entry.after.clone());
        let name = entry.name.clone();
        let shown = name.clone().or_else(|| entry.run.first().cloned());
        let shown = shown.unwrap_or_else(|| format!("number {}", commands.len() + 1));
        let mut command = entry
            .options(args, platform)
            .map_err(|problem| format!("command `{shown}`: {problem}"))?;
        if let Some(name) = name {
            command.name = name;
        }
        if commands
            .iter()
            .any(|it: &CommandOptions| it.name == command.name)
        {
            return Err(format!(
                "two commands have the name `{0}`: give one of them another `name`",
                command.name
            ));
        }
        commands.push(command);
    }
    if commands.iter().map(|it| it.workers).sum::<usize>() > MOST_WORKERS {
        return Err(format!("more than {MOST_WORKERS} workers"));
    }
    put_in_order(&mut commands, &after)?;
    Ok(commands)
}

impl FileEntry {
    fn options(self, args: &RunArgs, platform: Platform) -> Result<CommandOptions, String> {
        let is_empty = |word: Option<&String>| word.is_none_or(String::is_empty);
        if is_empty(self.run.first()) {
            return Err("`run` is empty: give the program and its arguments".to_owned());
        }
        let is_name = |it: char| !it.is_control() && !"=\0".contains(it);
        if let Some(name) = &self.name
            && (name.trim().is_empty() || name.len() > 64 || !name.chars().all(is_name))
        {
            return Err("`name` has 1 to 64 characters, without control characters".to_owned());
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(format!("`env` has no variable that can be called `{name}`"));
            }
        }
        let restart = self.restart.unwrap_or(RestartWhen::Never);
        if self.once && (restart == RestartWhen::Always || self.ready.is_some()) {
            return Err(
                "a command that runs `once` is ready when it has exited with 0: leave out `ready` and `restart = \
                 \"always\"`"
                    .to_owned(),
            );
        }
        if self.once && self.workers.is_some_and(|count| count > 1) {
            return Err("a command that runs `once` has one worker".to_owned());
        }
        if self.once && self.front.is_some() {
            return Err(
                "a command that runs `once` serves no requests: leave out `front`".to_owned(),
            );
        }
        let time = |name: &str, text: Option<&String>| -> Result<Option<Duration>, String> {
            let time = text.map(|text| adieu::parse_duration(text));
            time.transpose()
                .map_err(|problem| format!("`{name}`: {problem}"))
        };
        let ready_timeout = time("ready-timeout", self.ready_timeout.as_ref())?;
        let probe_timeout = time("probe-timeout", self.probe_timeout.as_ref())?;
        let args = RunArgs {
            watchdog: time("watchdog", self.watchdog.as_ref())?,
            restart_window: time("restart-window", self.restart_window.as_ref())?,
            restart_delay: time("restart-delay", self.restart_delay.as_ref())?,
            ready_timeout: ready_timeout.unwrap_or(args.ready_timeout),
            probe_timeout: probe_timeout.unwrap_or(args.probe_timeout),
            command: self.run.into_iter().map(Into::into).collect(),
            workers: self.workers.unwrap_or(1),
            signals: self.signal,
            group: self.group,
            no_cloak: self.no_cloak,
            listen: self.listen,
            front: self.front,
            front_headers: self.front_headers,
            watch: self.watch,
            ready: self.ready,
            probe_http: self.probe_http,
            probe_tcp: self.probe_tcp,
            probe_command: self.probe_command,
            restart,
            restart_limit: self.restart_limit,
            success_codes: self.success_code,
            ..args.clone()
        };
        let mut options = CommandOptions::from_args(args, platform)?;
        options.environment = self.env.into_iter().collect();
        options.once = self.once;
        Ok(options)
    }
}

/// From the names in `after`: what each command waits for at its start and at its stop, and its share of the time.
fn put_in_order(commands: &mut [CommandOptions], after: &[Vec<String>]) -> Result<(), String> {
    let names: Vec<String> = commands.iter().map(|it| it.name.clone()).collect();
    let number_of = |command: usize, name: &String| {
        names.iter().position(|it| it == name).ok_or_else(|| {
            format!(
                "command `{}`: `after` names `{name}`, which no command is called; there are {}",
                names[command],
                names.join(", ")
            )
        })
    };
    for (command, after) in after.iter().enumerate() {
        let numbers = after.iter().map(|name| number_of(command, name));
        commands[command].after = numbers.collect::<Result<_, _>>()?;
    }
    // Each one is placed when all that it comes after are.
    let mut levels: Vec<Option<u32>> = vec![None; commands.len()];
    while levels.contains(&None) {
        let mut is_placed = false;
        for command in 0..commands.len() {
            let before = commands[command].after.iter().map(|it| levels[*it]);
            let before: Option<Vec<u32>> = before.collect();
            if let (None, Some(before)) = (levels[command], before) {
                // One that has ended by then needs no time.
                let own = u32::from(!commands[command].once);
                levels[command] = Some(before.into_iter().max().unwrap_or(0) + own);
                is_placed = true;
            }
        }
        if !is_placed {
            let unplaced = names.iter().zip(&levels);
            let unplaced: Vec<&str> = unplaced
                .filter(|(_, level)| level.is_none())
                .map(|(name, _)| name.as_str())
                .collect();
            return Err(format!(
                "`after` goes in a circle: none of {} can be the first",
                unplaced.join(", ")
            ));
        }
    }
    for (command, level) in levels.into_iter().enumerate() {
        commands[command].levels = level.unwrap_or(1).max(1);
    }
    // Also those that come after by way of others.
    for command in 0..commands.len() {
        let mut reached = commands[command].after.clone();
        let mut next = 0;
        while let Some(before) = reached.get(next).copied() {
            if !commands[before].dependents.contains(&command) {
                commands[before].dependents.push(command);
                reached.extend(commands[before].after.clone());
            }
            next += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    fn parse_text(text: &str) -> Result<Vec<CommandOptions>, String> {
        let command = RunArgs::augment_args(clap::Command::new("run"));
        let words = ["run", "--file", "run.toml"];
        let matches = command.try_get_matches_from(words).expect("arguments");
        let args = RunArgs::from_arg_matches(&matches).expect("arguments");
        parse(text, &args, Platform::Plain)
    }

    /// Name, what it comes after, what comes after it, and its share of the time.
    fn order(text: &str) -> Vec<(String, Vec<usize>, Vec<usize>, u32)> {
        let commands = parse_text(text).expect("commands");
        let row = |it: CommandOptions| (it.name, it.after, it.dependents, it.levels);
        commands.into_iter().map(row).collect()
    }

    #[test]
    fn what_comes_after_what_is_followed_through_others() {
        let text = r#"
            [[command]]
            run = ["web"]
            after = ["migrate"]
            [[command]]
            run = ["migrate"]
            once = true
            after = ["db"]
            [[command]]
            run = ["/usr/bin/db"]
        "#;
        assert_eq!(
            order(text),
            [
                ("web".to_owned(), vec![1], vec![], 2),
                ("migrate".to_owned(), vec![2], vec![0], 1),
                ("db".to_owned(), vec![], vec![0, 1], 1),
            ]
        );
    }

    /// The file that the page shows is one that can be used.
    #[test]
    fn the_file_of_the_page_is_read() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/run.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let (_, text) = page.split_once("```toml\n").expect("a file");
        let (text, _) = text.split_once("```").expect("its end");
        let rows = order(text);
        let shares: Vec<_> = rows.iter().map(|it| (it.0.as_str(), it.3)).collect();
        assert_eq!(shares, [("redis", 1), ("migrate", 1), ("web", 2)]);
    }

    #[test]
    fn two_ways_to_one_command_are_no_circle() {
        let text = r#"
            [[command]]
            run = ["base"]
            [[command]]
            run = ["left"]
            after = ["base"]
            [[command]]
            run = ["right"]
            after = ["base"]
            [[command]]
            run = ["top"]
            after = ["left", "right", "base"]
        "#;
        let levels: Vec<u32> = order(text).into_iter().map(|it| it.3).collect();
        assert_eq!(levels, [1, 2, 2, 3]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_do() {
        for (text, problem) in [
            ("", "no command: begin one with [[command]]"),
            ("[[command]]\nrun = []", "`run` is empty"),
            ("[[command]]\nrun = ['']", "`run` is empty"),
            (
                "[[command]]\nrun = ['a']\naftr = ['b']",
                "unknown field `aftr`",
            ),
            (
                "[[command]]\nrun = ['a']\nafter = ['b']",
                "command `a`: `after` names `b`, which no command is called; there are a",
            ),
            (
                "[[command]]\nrun = ['a']\nafter = ['a']",
                "`after` goes in a circle: none of a can be the first",
            ),
            (
                "[[command]]\nrun = ['a']\n[[command]]\nrun = ['/bin/a']",
                "two commands have the name `a`",
            ),
            (
                "[[command]]\nrun = ['a']\nonce = true\nrestart = 'always'",
                "command `a`: a command that runs `once`",
            ),
            (
                "[[command]]\nrun = ['a']\nonce = true\nworkers = 2",
                "command `a`: a command that runs `once` has one worker",
            ),
            (
                "[[command]]\nrun = ['a']\nrestart = 'sometimes'",
                "expected one of `never`, `on-failure`, `always`",
            ),
            (
                "[[command]]\nrun = ['a']\nready = 'probe'",
                "command `a`: --ready probe asks",
            ),
            (
                "[[command]]\nrun = ['a']\nwatchdog = 'soon'",
                "command `a`: `watchdog`: ",
            ),
            ("[[command]]\nrun = ['a']\nworkers = 0", "--workers 0"),
            (
                "[[command]]\nrun = ['a']\nenv = { 'A=B' = 'c' }",
                "`env` has no",
            ),
            ("[[command]]\nrun = ['a']\nname = ''", "`name` has 1 to 64"),
        ] {
            let refused = parse_text(text).expect_err(text);
            assert!(refused.contains(problem), "{text}: {refused}");
            assert!(!refused.ends_with('\n'), "{refused:?}");
        }
    }

    /// One of each kind of value.
    const WHOLE: &str = r#"
[[command]]
name = "grüße"
run = ["redis-server", "--port", "6379"]
ready = "accept"
listen = ["web=tcp:127.0.0.1:8000"]
env = { MODE = "tést" }

[[command]]
run = ["python", "migrate.py"]
once = true
after = ["grüße"]

[[command]]
run = ["uvicorn", "shop:app"]
after = ["python"]
workers = 4
restart = "on-failure"
restart-delay = "1s"
success-code = [0, 3]
watchdog = "30s"
"#;

    #[test]
    fn a_file_with_each_kind_of_value_is_read() {
        assert_eq!(parse_text(WHOLE).expect("commands").len(), 3);
    }

    proptest::proptest! {
        #[test]
        fn a_file_with_slips_is_read_within_bounds_or_refused_with_a_reason(
            slips in proptest::collection::vec((0..=1_000_u16, 0..6_u8, "\\PC{0,3}|[\\[\\]\"'=\n.{}#,-]{1,3}|[0-9]{1,20}"), 0..5)
        ) {
            match parse_text(&adieu_testkit::with_typing_errors(WHOLE, &slips)) {
                Ok(commands) => {
                    let workers: usize = commands.iter().map(|it| it.workers).sum();
                    proptest::prop_assert!((1..=MOST_WORKERS).contains(&workers));
                }
                Err(words) => {
                    proptest::prop_assert!(!words.trim().is_empty() && !words.ends_with('\n'), "{:?}", words);
                }
            }
        }
    }
}
