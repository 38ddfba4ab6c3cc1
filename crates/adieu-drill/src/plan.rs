//! Which checks are run, with what demands, and whether the drill makes sense at all.

use crate::behind::behind_checks;
use crate::check::{ALL, CheckInfo, Spec, checks};
use crate::drill::{Address, Drill};
use crate::endpoint::{check_request, sendable};
use crate::error::DrillError;
use crate::jobs::jobs_checks;
use crate::process::{Placeholders, Ready};
use crate::report::{Group, Level};
use crate::rollout::rollout_checks;
use crate::threshold::Threshold;

/// The checks in order, each with its demand.
pub(crate) fn plan(drill: &Drill) -> Result<Vec<(&'static Spec, Threshold)>, DrillError> {
    sensible(drill).map_err(DrillError::Usage)?;
    let only = named(&drill.only).map_err(DrillError::Usage)?;
    let skip = named(&drill.skip).map_err(DrillError::Usage)?;
    let require = named(&drill.require).map_err(DrillError::Usage)?;
    if let Some(id) = require.iter().find(|id| skip.contains(id)) {
        return Err(DrillError::Usage(format!(
            "{id} is required and left out: give --require or --skip for it, not both"
        )));
    }
    for (id, _) in &drill.thresholds {
        known(id).map_err(DrillError::Usage)?;
    }
    let mut plan = Vec::new();
    for spec in ALL.iter().copied() {
        let wanted = if only.is_empty() {
            drill.level != Level::Quick || spec.quick
        } else {
            only.contains(&spec.id)
        };
        let wanted = wanted || require.contains(&spec.id);
        if !wanted || skip.contains(&spec.id) {
            continue;
        }
        let mut threshold = (spec.threshold)(drill);
        for (_, value) in drill.thresholds.iter().filter(|(id, _)| id == spec.id) {
            let set = threshold.set(value);
            threshold = set
                .map_err(|why| DrillError::Usage(format!("the threshold of {}: {why}", spec.id)))?;
        }
        plan.push((spec, threshold));
    }
    if plan.is_empty() {
        return Err(DrillError::Usage("no check is left to run".to_owned()));
    }
    Ok(plan)
}

/// Whether this check fails if it is skipped.
pub(crate) fn is_required(drill: &Drill, id: &str) -> bool {
    named(&drill.require).is_ok_and(|ids| ids.contains(&id))
}

/// The ids of the checks and groups that were named.
fn named(words: &[String]) -> Result<Vec<&'static str>, String> {
    let mut ids = Vec::new();
    for word in words {
        let group: Vec<_> = ALL
            .iter()
            .filter(|spec| spec.group.name() == word)
            .map(|spec| spec.id)
            .collect();
        if group.is_empty() {
            ids.push(known(word)?);
        }
        ids.extend(group);
    }
    Ok(ids)
}

/// The check of this id.
///
/// # Errors
///
/// With a sentence that has the id that was probably meant.
pub fn find_check(id: &str) -> Result<CheckInfo, String> {
    let mut all = checks()
        .chain(rollout_checks())
        .chain(behind_checks())
        .chain(jobs_checks());
    if let Some(check) = all.find(|check| check.id() == id) {
        return Ok(check);
    }
    Err(known(id)
        .err()
        .unwrap_or_else(|| format!("`{id}` is not a check")))
}

/// The id of a check, or a sentence with what was probably meant.
fn known(word: &str) -> Result<&'static str, String> {
    if let Some(spec) = ALL.iter().find(|spec| spec.id == word) {
        return Ok(spec.id);
    }
    let near = ALL
        .iter()
        .map(|spec| (strsim::damerau_levenshtein(word, spec.id), spec.id))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, id)| *distance <= id.len() / 3);
    Err(match near {
        Some((_, id)) => format!("`{word}` is not a check; did you mean `{id}`?"),
        None => format!("`{word}` is not a check; `adieu drill --list` names them all"),
    })
}

fn sensible(drill: &Drill) -> Result<(), String> {
    if drill.address.is_none() && drill.ready == Ready::Answers {
        return Err(
            "missing address: give --http URL or --tcp ADDRESS; for a program without one, say \
             when it is ready: --ready-line TEXT, or --ready-notify"
                .to_owned(),
        );
    }
    if let Some(cwd) = drill.launch.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Err(format!(
            "cwd: there is no directory {}; it is relative to where `adieu drill` is started, or to the file that has it",
            cwd.display()
        ));
    }
    if drill.feed.is_some() && drill.ledger.is_none() {
        return Err(
            "--feed gives it work, and only --ledger COMMAND can show what became of it: give both"
                .to_owned(),
        );
    }
    if drill.launch.command.is_empty() {
        return Err("no program: give its command after `--`".to_owned());
    }
    if drill.tls && matches!(drill.address, Some(Address::Http(_))) {
        return Err("--tls goes with --tcp; for HTTP write https:// in the URL".to_owned());
    }
    if drill.grace.is_zero() {
        return Err("a grace of zero leaves no time to stop".to_owned());
    }
    if drill.repeat == 0 {
        return Err("a check that is repeated 0 times says nothing: at least 1".to_owned());
    }
    if drill.clients == 0 {
        return Err("a load needs at least one client".to_owned());
    }
    if let Some(address) = &drill.address {
        same_port(drill, address.text())?;
    }
    if let Ready::Url(url) = &drill.ready
        && !url.contains("://")
    {
        return Err(format!(
            "`{url}` is not a URL: readiness is asked for at http://127.0.0.1:{{port}}/…"
        ));
    }
    check_request(&drill.headers, drill.method.as_deref())?;
    // What is wrong with an address shows before anything is started.
    let placeholders = Placeholders::fill_with(std::path::Path::new(""))
        .map_err(|error| format!("no free port: {error}"))?;
    let endpoint = drill.endpoint(&placeholders)?;
    sendable(&endpoint, "--http")?;
    for (option, path) in drill.paths.given() {
        let wrong = |why| format!("{option} {path}: {why}");
        let endpoint = endpoint.at(&placeholders.fill(path)).map_err(wrong)?;
        sendable(&endpoint, option)?;
    }
    Ok(())
}

/// The port that the drill chooses is given to both sides, or to none.
fn same_port(drill: &Drill, address: &str) -> Result<(), String> {
    let env = drill.launch.env.iter().map(|(_, value)| value);
    let told = drill
        .launch
        .command
        .iter()
        .chain(env)
        .any(|word| word.contains(Placeholders::PORT));
    let asked = address.contains(Placeholders::PORT);
    if asked && !told && !drill.held_socket {
        return Err(format!(
            "`{address}` is where the program is to listen, but its command has no `{{port}}`: write it where the program \
             takes its port, or into its environment with --env PORT={{port}}; one that takes its socket as descriptor 3 \
             needs --held-socket",
        ));
    }
    if told && !asked {
        return Err(format!(
            "the command has a `{{port}}`, but the address `{address}` has none: write {{port}} there too",
        ));
    }
    Ok(())
}

/// Whether a check has something to look at in a program that has no address.
pub(crate) fn needs_an_address(spec: &Spec) -> bool {
    match spec.group {
        Group::Drain | Group::KeepAlive | Group::Readiness | Group::Rollout => true,
        Group::Jobs => false,
        Group::Signals => matches!(spec.id, "hup-keeps-serving" | "int-twice-forces"),
        Group::Exit => matches!(spec.id, "hung-handler" | "port-free"),
        Group::Data => spec.id == "rolling-restart",
    }
}

/// Whether a check is about HTTP, so that a program at a plain TCP address has nothing to show it.
pub(crate) fn needs_http(spec: &Spec) -> bool {
    matches!(
        spec.id,
        "inflight-finishes"
            | "backlog-served"
            | "slow-upload"
            | "slow-reader"
            | "stream-whole"
            | "pipelined"
            | "connection-close"
            | "half-head"
            | "h2-goaway"
            | "websocket-1001"
            | "sse-ends"
            | "deploy-unnoticed"
            | "int-twice-forces"
            | "hung-handler"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drill() -> Drill {
        Drill::command(["server", "{port}"]).http("http://127.0.0.1:{port}/")
    }

    fn refusal(drill: &Drill) -> String {
        plan(drill).expect_err("must be refused").to_string()
    }

    fn ids(drill: &Drill) -> Vec<&'static str> {
        plan(drill)
            .expect("a plan")
            .into_iter()
            .map(|(spec, _)| spec.id)
            .collect()
    }

    #[test]
    fn a_level_and_names_select() {
        assert!(ids(&drill().level(Level::Quick)).len() < ids(&drill()).len());
        assert_eq!(ids(&drill().check("port-free")), ["port-free"]);
        assert_eq!(
            ids(&drill().check("readiness").skip("live-while-draining")),
            ["ready-before-close"]
        );
    }

    #[test]
    fn an_unknown_check_is_named_with_the_nearest() {
        assert_eq!(
            refusal(&drill().check("keepalive-rase")),
            "`keepalive-rase` is not a check; did you mean `keepalive-race`?"
        );
        assert!(refusal(&drill().skip("zzz")).contains("--list"));
        assert!(refusal(&drill().threshold("nonsense-id", "1")).contains("is not a check"));
        assert!(
            refusal(&drill().threshold("idle-keepalive", "soon")).contains("is not a duration")
        );
    }

    #[test]
    fn a_port_must_be_told_on_both_sides() {
        let untold = Drill::command(["server"]).http("http://127.0.0.1:{port}/");
        assert!(refusal(&untold).contains("its command has no `{port}`"));
        assert!(plan(&untold.env("PORT", "{port}")).is_ok());
        let unasked = Drill::command(["server", "{port}"]).tcp("127.0.0.1:1");
        assert!(refusal(&unasked).contains("the address `127.0.0.1:1` has none"));
    }

    #[test]
    fn without_an_address_it_must_say_when_it_is_ready() {
        let worker = Drill::command(["worker"]);
        assert!(refusal(&worker).contains("--http"));
        assert!(plan(&worker.ready(Ready::Line("begun".to_owned()))).is_ok());
    }

    #[test]
    fn paths_and_methods_are_looked_at_before_anything_is_started() {
        for (drill, words) in [
            (
                drill().readiness("gopher://x/"),
                "--readiness gopher://x/: `gopher://x/` is not a URL",
            ),
            (drill().ws("http://"), "--ws http://: "),
            (drill().sse("/a b"), "--sse: the path has characters"),
            (
                drill().slow("/slow\r\nx: y"),
                "--slow: the path has characters",
            ),
            (
                drill().http("http://127.0.0.1:{port}/a b"),
                "--http: the path has",
            ),
            (drill().method("B AD"), "invalid method `B AD`"),
            (drill().method(""), "invalid method"),
        ] {
            let said = refusal(&drill);
            assert!(said.contains(words), "{said}");
        }
        let good = drill()
            .slow("POST /slow?ms={ms}")
            .readiness("http://127.0.0.1:{port2}/readyz");
        assert!(plan(&good.method("PROPFIND").liveness("livez")).is_ok());
    }

    #[test]
    fn a_header_cannot_smuggle_another() {
        assert!(refusal(&drill().header("a", "b\r\nc: d")).contains("a header has a name"));
    }
}
