//! Jobs of HashiCorp Nomad.

use super::command;
use super::hcl::{self, HclAttribute, HclBlock, HclValue};
use super::launch::NOMAD;
use super::program::{HostedProgram, ImageOf};

/// The tasks of a job that a platform could stop; nothing for a file that is not one.
pub(crate) fn parse(text: &str) -> Option<Vec<HostedProgram>> {
    let file = hcl::parse(text)?;
    let mut tasks = Vec::new();
    for job in file.blocks.iter().filter(|block| block.kind == "job") {
        // What runs once holds no request when it stops.
        if job.text("type") == Some("batch") {
            continue;
        }
        job.all("task", &mut tasks);
    }
    Some(tasks.into_iter().filter_map(program).collect())
}

fn program(task: &HclBlock) -> Option<HostedProgram> {
    // A step before the task that counts, or behind it.
    if task
        .block("lifecycle")
        .is_some_and(|it| it.text("sidecar") != Some("true"))
    {
        return None;
    }
    let config = task.block("config");
    let get = |name: &str| config.and_then(|config| config.get(name));
    let is_container = matches!(task.text("driver"), Some("docker" | "podman"));
    let mut command = get("command").map(words);
    if let Some(args) = get("args") {
        command.get_or_insert_default().extend(words(args));
    }
    let image = config.and_then(|config| config.text("image"));
    Some(HostedProgram {
        image: image.map_or(ImageOf::None, |name| ImageOf::Named(name.to_owned())),
        entrypoint: get("entrypoint").map(words).filter(|_| is_container),
        command,
        variables: variables(task),
        wait: task.get("kill_timeout").map(|it| (seconds(it), it.line)),
        signal: task
            .get("kill_signal")
            .and_then(|it| Some((task.text("kill_signal")?.to_owned(), it.line))),
        ..HostedProgram::new(
            &NOMAD,
            task.label.as_deref().unwrap_or("the task"),
            task.line,
        )
    })
}

fn seconds(said: &HclAttribute) -> Option<u64> {
    match &said.value {
        HclValue::Text(text) => command::seconds(text),
        _ => None,
    }
}

fn words(said: &HclAttribute) -> Vec<String> {
    match &said.value {
        HclValue::Text(text) => vec![text.clone()],
        HclValue::List(items) => items.clone(),
        HclValue::Map(_) | HclValue::Unclear => Vec::new(),
    }
}

/// `env { NAME = "value" }` or `env = { … }`.
fn variables(task: &HclBlock) -> Vec<(String, String, u32)> {
    let of_map = match task.get("env").map(|it| &it.value) {
        Some(HclValue::Map(attributes)) => attributes.as_slice(),
        _ => &[],
    };
    let of_block = task
        .block("env")
        .map(|env| env.attributes.as_slice())
        .unwrap_or_default();
    of_map
        .iter()
        .chain(of_block)
        .map(|it| {
            let value = match &it.value {
                HclValue::Text(text) => text.clone(),
                // Said, but not here.
                _ => "?".to_owned(),
            };
            (it.name.clone(), value, it.line)
        })
        .collect()
}
