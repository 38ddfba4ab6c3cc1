//! Which checks are run, with what demands, and whether the drill makes sense at all.

use crate::check::{ALL, CheckInfo, Spec, checks};
use crate::drill::{Address, Drill};
use crate::error::CannotDrill;
use crate::place::Place;
use crate::process::{Blanks, Ready};
use crate::report::{Group, Level};
use crate::threshold::Threshold;

/// The checks in order, each with its demand.
pub(crate) fn plan(drill: &Drill) -> Result<Vec<(&'static Spec, Threshold)>, CannotDrill> {
    sensible(drill).map_err(CannotDrill::Usage)?;
    let only = named(&drill.only).map_err(CannotDrill::Usage)?;
    let skip = named(&drill.skip).map_err(CannotDrill::Usage)?;
    for (id, _) in &drill.thresholds {
        known(id).map_err(CannotDrill::Usage)?;
    }
    let mut plan = Vec::new();
    for spec in ALL.iter().copied() {
        let wanted = if only.is_empty() {
            drill.level != Level::Quick || spec.quick
        } else {
            only.contains(&spec.id)
        };
        if !wanted || skip.contains(&spec.id) {
            continue;
        }
        let mut threshold = (spec.threshold)(drill);
        for (_, value) in drill.thresholds.iter().filter(|(id, _)| id == spec.id) {
            let set = threshold.set(value);
            threshold = set.map_err(|why| {
                CannotDrill::Usage(format!("the threshold of {}: {why}", spec.id))
            })?;
        }
        plan.push((spec, threshold));
    }
    if plan.is_empty() {
        return Err(CannotDrill::Usage("no check is left to run".to_owned()));
    }
    Ok(plan)
}

/// Whether this check is among those that are run.
pub(crate) fn is_planned(drill: &Drill, id: &str) -> bool {
    plan(drill).is_ok_and(|plan| plan.iter().any(|(spec, _)| spec.id == id))
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
    known(id)?;
    checks()
        .find(|check| check.id() == id)
        .ok_or_else(|| format!("`{id}` is no check"))
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
        Some((_, id)) => format!("`{word}` is no check; did you mean `{id}`?"),
        None => format!("`{word}` is no check; `adieu drill --list` names them all"),
    })
}

fn sensible(drill: &Drill) -> Result<(), String> {
    if drill.address.is_none() && drill.ready == Ready::Answers {
        return Err(
            "where is the program to be spoken to? Give --http URL or --tcp ADDRESS; for one that has no address, say \
             when it is ready: --ready-line TEXT, or --ready-notify"
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
            "`{url}` is no URL: readiness is asked for at http://127.0.0.1:{{port}}/…"
        ));
    }
    for (name, value) in &drill.headers {
        let good = |text: &str| !text.contains(['\r', '\n']);
        if name.is_empty() || name.contains([':', ' ']) || !good(name) || !good(value) {
            return Err(
                "a header has a name without spaces, a colon, and a value in one line".to_owned(),
            );
        }
    }
    let is_token = |text: &str| {
        text.chars()
            .all(|it| it.is_ascii_alphanumeric() || "-_".contains(it))
    };
    if let Some(method) = &drill.method
        && (method.is_empty() || !is_token(method))
    {
        return Err(format!("`{method}` is no method as in GET or POST"));
    }
    // What is wrong with an address shows before anything is started.
    let blanks = Blanks::fill_with(std::path::Path::new(""))
        .map_err(|error| format!("no free port: {error}"))?;
    let place = crate::stage::place(drill, &blanks)?;
    sendable(&place, "--http")?;
    for (option, path) in drill.paths.given() {
        let wrong = |why| format!("{option} {path}: {why}");
        let place = place.at(&blanks.fill(path)).map_err(wrong)?;
        sendable(&place, option)?;
    }
    Ok(())
}

/// A path is one word in the first line of a request.
fn sendable(place: &Place, option: &str) -> Result<(), String> {
    let is_torn = |it: char| it.is_whitespace() || it.is_control();
    if place.request().path.contains(is_torn) {
        return Err(format!(
            "{option}: the path has characters that a URL cannot have: write them as %20 and so on"
        ));
    }
    Ok(())
}

/// The port of the drill's choice is told to both sides, or to none.
fn same_port(drill: &Drill, address: &str) -> Result<(), String> {
    let env = drill.launch.env.iter().map(|(_, value)| value);
    let told = drill
        .launch
        .command
        .iter()
        .chain(env)
        .any(|word| word.contains(Blanks::PORT));
    let asked = address.contains(Blanks::PORT);
    if asked && !told {
        return Err(format!(
            "`{address}` is where the program is to listen, but its command has no `{{port}}`: write it where the program \
             takes its port, or into its environment with --env PORT={{port}}",
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
        Group::Drain | Group::KeepAlive | Group::Readiness => true,
        Group::Signals => spec.id == "hup-keeps-serving",
        Group::Exit => matches!(spec.id, "hung-handler" | "port-free"),
        Group::Data => spec.id == "rolling-restart",
    }
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
            "`keepalive-rase` is no check; did you mean `keepalive-race`?"
        );
        assert!(refusal(&drill().skip("zzz")).contains("--list"));
        assert!(refusal(&drill().threshold("nonsense-id", "1")).contains("is no check"));
        assert!(refusal(&drill().threshold("idle-keepalive", "soon")).contains("is no time"));
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
                "--readiness gopher://x/: `gopher://x/` is no URL",
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
            (drill().method("B AD"), "`B AD` is no method"),
            (drill().method(""), "is no method"),
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
