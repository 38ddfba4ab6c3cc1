//! How to mend what a check found: only what fits the program that was drilled.

use super::Spec;

/// What a command is known by, and the names under which hints for it stand.
const KNOWN: &[(&[&str], &[&str])] = &[
    (&["uvicorn"], &["uvicorn", "Python"]),
    (&["gunicorn"], &["gunicorn", "Python"]),
    (&["celery"], &["Celery", "Python"]),
    (
        &["hypercorn", "granian", "daphne", "dramatiq", "arq"],
        &["Python"],
    ),
    (
        &["python", "python3", "pypy3", "flask", "django-admin"],
        &["Python"],
    ),
    (
        &["node", "npm", "npx", "yarn", "pnpm", "deno", "bun"],
        &["Node"],
    ),
    (&["java", "mvn", "gradle"], &["Java"]),
    (&["nginx"], &["nginx"]),
    (&["redis-server", "postgres"], &[]),
    (&["sh", "bash", "dash"], &["shell"]),
];
/// What stands for every program.
const GENERAL: &[&str] = &["any", "adieu", "systemd", "queues", "SQLite"];
/// What a program that is none of the known may be: built into a file of its own.
const BUILT: &[&str] = &["Go", "axum", "hyper", "Rust"];

/// A line for each framework that this command may be of.
pub(crate) fn fitting(spec: &Spec, command: &[String]) -> String {
    let names = names(command);
    let fits = |label: &str| {
        GENERAL
            .iter()
            .chain(&names)
            .any(|name| label.contains(name))
    };
    let lines = spec.hints.iter().filter(|(label, _)| fits(label));
    let mut lines: Vec<String> = lines.map(line).collect();
    // One that is meant for others is better than none.
    if lines.is_empty() {
        lines = spec.hints.iter().map(line).collect();
    }
    lines.join("\n")
}

/// A line for each hint, where no command says which fit.
pub(crate) fn all(hints: &[(&str, &str)]) -> String {
    let lines: Vec<String> = hints.iter().map(line).collect();
    lines.join("\n")
}

fn line((label, words): &(&str, &str)) -> String {
    format!("{label}: {words}")
}

/// The names of the hints for this command. In `sh -c "exec uvicorn app:app"` and `python -m uvicorn` the most telling
/// word counts.
fn names(command: &[String]) -> Vec<&'static str> {
    let words = command
        .iter()
        .flat_map(|word| word.split_whitespace())
        .map(|word| word.rsplit('/').next().unwrap_or(word))
        .collect::<Vec<_>>();
    for (known, names) in KNOWN {
        if words.iter().any(|word| known.contains(word)) {
            return names.to_vec();
        }
    }
    BUILT.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::ALL;

    #[test]
    fn hints_are_for_the_program_that_was_drilled() {
        let spec = ALL.iter().find(|spec| spec.id == "keepalive-race").unwrap();
        let said = |words: &[&str]| {
            let command: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            fitting(spec, &command)
        };
        let uvicorn = said(&["sh", "-c", "exec /venv/bin/uvicorn app:app --port {port}"]);
        assert!(
            uvicorn.contains("uvicorn: ") && uvicorn.contains("any: "),
            "{uvicorn}"
        );
        let script = said(&["bash", "worker.sh"]);
        for (text, never) in [
            (&uvicorn, "Node: "),
            (&uvicorn, "Go: "),
            (&script, "uvicorn: "),
            (&script, "Go: "),
        ] {
            assert!(!text.contains(never), "{text}");
        }
        assert!(said(&["./server"]).contains("Go: "));
        for spec in ALL {
            for command in ["uvicorn", "node", "java", "bash", "./server"] {
                assert!(
                    !fitting(spec, &[command.to_owned()]).is_empty(),
                    "{}",
                    spec.id
                );
            }
        }
    }
}
