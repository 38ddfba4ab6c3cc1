//! Jobs of HashiCorp Nomad.

use super::command;
use super::hcl::{self, Attribute, Block, Value};
use super::launch::NOMAD;
use super::program::{ImageOf, Program};

/// The tasks of a job that a platform could stop; nothing for a file that is not one.
pub(crate) fn parse(text: &str) -> Option<Vec<Program>> {
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

fn program(task: &Block) -> Option<Program> {
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
    Some(Program {
        image: image.map_or(ImageOf::None, |name| ImageOf::Named(name.to_owned())),
        entrypoint: get("entrypoint").map(words).filter(|_| is_container),
        command,
        variables: variables(task),
        wait: task.get("kill_timeout").map(|it| (seconds(it), it.line)),
        signal: task
            .get("kill_signal")
            .and_then(|it| Some((task.text("kill_signal")?.to_owned(), it.line))),
        ..Program::new(
            &NOMAD,
            task.label.as_deref().unwrap_or("the task"),
            task.line,
        )
    })
}

fn seconds(said: &Attribute) -> Option<u64> {
    match &said.value {
        Value::Text(text) => command::seconds(text),
        _ => None,
    }
}

fn words(said: &Attribute) -> Vec<String> {
    match &said.value {
        Value::Text(text) => vec![text.clone()],
        Value::List(items) => items.clone(),
        Value::Map(_) | Value::Unclear => Vec::new(),
    }
}

/// `env { NAME = "value" }` or `env = { … }`.
fn variables(task: &Block) -> Vec<(String, String, u32)> {
    let of_map = match task.get("env").map(|it| &it.value) {
        Some(Value::Map(attributes)) => attributes.as_slice(),
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
                Value::Text(text) => text.clone(),
                // Said, but not here.
                _ => "?".to_owned(),
            };
            (it.name.clone(), value, it.line)
        })
        .collect()
}
