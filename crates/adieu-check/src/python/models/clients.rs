//! Clients of servers that wait on the thread that calls them, from the table beside this file.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use super::blocking::by_code;
use crate::callgraph::Leaf;

const TABLE: &str = include_str!("clients.txt");

/// One line of the table.
#[derive(Debug)]
struct Line {
    /// None for calls that ask no server.
    leaf: Option<Leaf>,
    segments: Vec<&'static str>,
}

/// The lines by the first name of their pattern.
fn lines() -> &'static FxHashMap<&'static str, Vec<Line>> {
    static LINES: OnceLock<FxHashMap<&'static str, Vec<Line>>> = OnceLock::new();
    LINES.get_or_init(|| {
        let mut lines: FxHashMap<&'static str, Vec<Line>> = FxHashMap::default();
        for line in TABLE.lines() {
            let Some((code, pattern)) = line.split_once(' ').filter(|(code, _)| *code != "#")
            else {
                continue;
            };
            let segments: Vec<&'static str> = pattern.trim().split('.').collect();
            let root = segments.first().copied().unwrap_or_default();
            let leaf = by_code(code);
            lines.entry(root).or_default().push(Line { leaf, segments });
        }
        lines
    })
}

/// Whether the table has clients of a package with this name.
pub(crate) fn has(root: &str) -> bool {
    lines().contains_key(root)
}

/// What is wrong with making this call on the event loop, if the table says that it waits.
pub(crate) fn blocking(path: &str) -> Option<Leaf> {
    let root = path.split('.').next()?;
    let fitting = || {
        let lines = lines().get(root).into_iter().flatten();
        lines.filter(|line| fits(&line.segments, path))
    };
    if fitting().any(|line| line.leaf.is_none()) {
        return None;
    }
    fitting().find_map(|line| line.leaf)
}

fn fits(pattern: &[&str], path: &str) -> bool {
    let mut names = path.split('.');
    for (at, segment) in pattern.iter().enumerate() {
        let is_last = at + 1 == pattern.len();
        match (*segment, names.next()) {
            ("**", Some(_)) if is_last => return true,
            ("*", Some(_)) => {}
            (segment, Some(name)) if segment == name => {}
            _ => return false,
        }
    }
    names.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::{TABLE, blocking, has};
    use crate::python::models::blocking::by_code;

    #[test]
    fn every_line_of_the_table_is_a_rule_and_a_pattern() {
        for line in TABLE
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (code, pattern) = line.split_once(' ').expect("two words");
            assert!(code == "!" || by_code(code).is_some(), "{line}");
            assert!(pattern.contains('.') && !pattern.contains(' '), "{line}");
        }
    }

    #[test]
    fn patterns_fit_names_and_not_their_beginnings() {
        assert!(has("boto3") && !has("json"));
        assert!(blocking("boto3.client().put_object").is_some());
        assert!(blocking("boto3.resource().Bucket().upload_file").is_some());
        assert!(blocking("openai.OpenAI().chat.completions.create").is_some());
        for free in [
            "boto3.client",
            "boto3.client().generate_presigned_url",
            "openai.OpenAI",
            "openai.AsyncOpenAI().chat.completions.create",
            "openai.OpenAI().chat.completions.create.parse",
        ] {
            assert!(blocking(free).is_none(), "{free}");
        }
    }
}
