//! Clients that wait on the thread that calls them: the table beside this file, and what the settings of a project add.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use super::blocking::by_code;
use super::libraries;
use crate::callgraph::Leaf;
use crate::callgraph::path::is_internal;

const TABLE: &str = include_str!("clients.txt");

/// One line of a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// None for calls that ask no server.
    leaf: Option<Leaf>,
    segments: Box<[Box<str>]>,
}

impl Line {
    /// A rule and a pattern; nothing for an empty line and for a comment.
    pub(crate) fn parse(line: &str) -> Result<Option<Line>, String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let Some((code, pattern)) = line.split_once(char::is_whitespace) else {
            return Err(format!(
                "`{line}` is not a rule and a call, such as `ADP102 billing.Client().charge`"
            ));
        };
        let leaf = match code {
            "!" => None,
            _ => Some(leaf(code).ok_or_else(|| {
                format!(
                    "`{code}` is not a rule that a call can break: use one of {}",
                    CODES.join(", ")
                )
            })?),
        };
        let pattern = pattern.trim();
        let segments: Box<[Box<str>]> = pattern.split('.').map(Box::from).collect();
        let is_name = |segment: &str| {
            let name = segment.strip_suffix("()").unwrap_or(segment);
            let mut chars = name.chars();
            chars
                .next()
                .is_some_and(|first| first.is_alphabetic() || first == '_')
                && chars.all(|c| c.is_alphanumeric() || c == '_')
        };
        let is_segment = |(at, segment): (usize, &str)| match segment {
            "*" => at > 0,
            "**" => at > 0 && at + 1 == segments.len(),
            name => is_name(name),
        };
        if segments.len() < 2 || !pattern.split('.').enumerate().all(is_segment) {
            return Err(format!(
                "`{pattern}` is not a call, such as `billing.Client().charge` or `billing.Client().*`"
            ));
        }
        Ok(Some(Line { leaf, segments }))
    }

    fn root(&self) -> &str {
        self.segments.first().map_or("", |root| root)
    }
}

/// The rules that a line may name.
const CODES: &[&str] = &[
    "ADP102", "ADP103", "ADP104", "ADP105", "ADP106", "ADP108", "ADP109", "ADP110", "ADP111",
    "ADP112",
];

/// What is wrong with a call; `?` behind the rule: not with a zero or a false among its arguments.
fn leaf(code: &str) -> Option<Leaf> {
    match code.strip_suffix('?') {
        Some(code) => by_code(code).map(|leaf| Leaf {
            pollable: true,
            ..leaf
        }),
        None => by_code(code),
    }
}

/// Lines by the first name of their pattern.
type Table = FxHashMap<Box<str>, Vec<Line>>;

fn table(lines: impl Iterator<Item = Line>) -> Table {
    let mut table = Table::default();
    for line in lines {
        table.entry(line.root().into()).or_default().push(line);
    }
    table
}

/// The lines that come with this program.
fn known() -> &'static Table {
    static KNOWN: OnceLock<Table> = OnceLock::new();
    // A test reads every line of the table, which is part of the program.
    KNOWN.get_or_init(|| table(TABLE.lines().filter_map(|line| Line::parse(line).ok()?)))
}

/// All lines that count for a project.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    own: Table,
}

impl Clients {
    /// Those of the settings count beside those that come with this program.
    pub(crate) fn new(own: &[String]) -> Clients {
        // What cannot be read was said when the settings were.
        Clients {
            own: table(own.iter().filter_map(|line| Line::parse(line).ok()?)),
        }
    }

    /// First segments of every path that a rule knows: other outside calls need not be remembered.
    pub(crate) fn is_known_root(&self, root: &str) -> bool {
        libraries::is_known_root(root) || !self.own.is_empty() && self.own.contains_key(root)
    }

    /// Whether a path can lead to anything a rule knows. Most outside names cannot, and are not kept.
    pub(crate) fn leads_somewhere(&self, path: &str) -> bool {
        is_internal(path) || self.is_known_root(path.split(['.', '(']).next().unwrap_or(path))
    }

    /// What is wrong with making this call on the event loop, if a line says that it waits.
    pub(crate) fn blocking(&self, path: &str) -> Option<Leaf> {
        let root = path.split('.').next()?;
        let root = root.strip_suffix("()").unwrap_or(root);
        let fitting = || {
            let own = self.own.get(root).into_iter().flatten();
            let known = known().get(root).into_iter().flatten();
            own.chain(known).filter(|line| fits(&line.segments, path))
        };
        if fitting().any(|line| line.leaf.is_none()) {
            return None;
        }
        fitting().find_map(|line| line.leaf)
    }
}

/// Whether the table that comes with this program has clients of a package with this name.
pub(crate) fn has(root: &str) -> bool {
    known().contains_key(root)
}

fn fits(pattern: &[Box<str>], path: &str) -> bool {
    let mut names = path.split('.');
    for (at, segment) in pattern.iter().enumerate() {
        let is_last = at + 1 == pattern.len();
        match (&**segment, names.next()) {
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
    use super::{CODES, Clients, Line, TABLE, has, known, leaf};

    #[test]
    fn every_line_of_the_table_is_a_rule_and_a_pattern() {
        let mut count = 0;
        for line in TABLE.lines() {
            count += usize::from(Line::parse(line).expect("a line").is_some());
        }
        assert_eq!(count, known().values().map(Vec::len).sum::<usize>());
        for code in CODES {
            assert!(leaf(code).is_some(), "{code}");
        }
    }

    #[test]
    fn patterns_fit_names_and_not_their_beginnings() {
        let clients = Clients::default();
        assert!(has("boto3") && !has("json"));
        for waits in [
            "boto3.client().put_object",
            "boto3.resource().Bucket().upload_file",
            "openai.OpenAI().chat.completions.create",
        ] {
            assert!(clients.blocking(waits).is_some(), "{waits}");
        }
        for free in [
            "boto3.client",
            "boto3.client().generate_presigned_url",
            "openai.OpenAI",
            "openai.AsyncOpenAI().chat.completions.create",
            "openai.OpenAI().chat.completions.create.parse",
        ] {
            assert!(clients.blocking(free).is_none(), "{free}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_says_why() {
        for (line, why) in [
            ("billing.Client().charge", "is not a rule and a call"),
            (
                "ADP999 billing.Client().charge",
                "is not a rule that a call can break",
            ),
            (
                "ADD101 billing.Client().charge",
                "is not a rule that a call can break",
            ),
            ("ADP102 billing", "is not a call"),
            ("ADP102 *.charge", "is not a call"),
            ("ADP102 billing.**.charge", "is not a call"),
            ("ADP102 billing.Client(1).charge", "is not a call"),
            ("ADP102 billing.Client().charge now", "is not a call"),
        ] {
            let error = Line::parse(line).expect_err(line);
            assert!(error.contains(why), "{line}: {error}");
        }
        assert_eq!(Line::parse("  # words"), Ok(None));
    }

    #[test]
    fn a_line_of_the_settings_counts_beside_the_others() {
        let clients = Clients::new(&[
            "ADP102 billing.Client().*".to_owned(),
            "! boto3.client().list_buckets".to_owned(),
        ]);
        assert!(clients.is_known_root("billing") && !Clients::default().is_known_root("billing"));
        assert!(clients.blocking("billing.Client().charge").is_some());
        assert!(clients.blocking("boto3.client().list_buckets").is_none());
        assert!(clients.blocking("boto3.client().put_object").is_some());
    }
}
