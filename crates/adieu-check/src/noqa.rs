//! `--add-noqa`: a comment for every finding, so that only new ones are reported from then on.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::check::{Outcome, Request};
use crate::finding::Notice;
use crate::fix::{Applicability, Fix};
use crate::repair::text_of;
use crate::rule::Code;
use crate::source::Lines;

/// What stands behind the brackets of a comment that needs a reason.
const REASON: &str = "added by --add-noqa";

/// Where comments stand in a kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comment {
    /// `# noqa: ADP101` at the end of the line.
    Noqa,
    /// `// adieu: ignore(ADR102) …` at the end of the line.
    Behind(&'static str),
    /// `# adieu: ignore[ADD101] …` on the line above: at the end of one it would be part of it.
    Above,
    /// None.
    Nowhere,
}

impl Comment {
    fn of(path: &str) -> Comment {
        let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "py" => Comment::Noqa,
            "rs" => Comment::Behind("//"),
            "yml" | "yaml" | "sh" | "bash" | "toml" => Comment::Behind("#"),
            "json" | "tpl" | "in" | "j2" => Comment::Nowhere,
            _ => Comment::Above,
        }
    }
}

impl Outcome {
    /// Puts a comment in the place of the repair of each finding, and says what has no place for one.
    pub fn ignore_each(&mut self, request: &Request) -> Vec<Notice> {
        let mut by_line: BTreeMap<(Arc<str>, u32), Vec<Code>> = BTreeMap::new();
        for finding in &self.findings {
            let codes = by_line
                .entry((Arc::clone(&finding.path), finding.place.line))
                .or_default();
            codes.push(finding.code);
        }
        let mut fixes: BTreeMap<(Arc<str>, u32), Fix> = BTreeMap::new();
        let mut refused: BTreeMap<Arc<str>, &str> = BTreeMap::new();
        let mut text: Option<(Arc<str>, String)> = None;
        for ((path, line), mut codes) in by_line {
            codes.sort_unstable();
            codes.dedup();
            if text.as_ref().is_none_or(|(held, _)| *held != path) {
                text = text_of(request, &path)
                    .ok()
                    .map(|read| (Arc::clone(&path), read));
            }
            // What is wrong with a comment, or with the file as a whole, is not for a comment to say.
            let is_of_comments = codes.iter().any(|code| code.as_str().starts_with("ADX"));
            let fix = match &text {
                Some((_, text)) if !is_of_comments => comment(&path, text, line, &codes),
                _ => None,
            };
            match fix {
                Some(fix) => {
                    fixes.insert((path, line), fix);
                }
                None => {
                    refused.insert(
                        path,
                        "has no place for an ignore comment at some of its findings",
                    );
                }
            }
        }
        for finding in &mut self.findings {
            let key = (Arc::clone(&finding.path), finding.place.line);
            finding.fix = fixes.get(&key).cloned();
        }
        refused
            .into_iter()
            .map(|(path, message)| Notice {
                path,
                message: message.to_owned(),
            })
            .collect()
    }
}

/// The edit that ignores these rules on a line.
fn comment(path: &str, text: &str, line: u32, codes: &[Code]) -> Option<Fix> {
    let range = Lines::new(text).range(text, line);
    let written = text.get(range.clone())?;
    let list = codes
        .iter()
        .map(|code| code.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    let end = range.start + written.trim_end().len();
    let (at, text) = match Comment::of(path) {
        // The line goes on below.
        Comment::Noqa | Comment::Behind(_) if written.trim_end().ends_with('\\') => return None,
        Comment::Noqa => match written.find("# noqa: ") {
            // One that is there already takes them in.
            Some(at) => (range.start + at + "# noqa: ".len(), format!("{list}, ")),
            None => (end, format!("  # noqa: {list}")),
        },
        Comment::Behind(mark) => (end, format!(" {mark} adieu: ignore({list}) {REASON}")),
        Comment::Above => {
            let indent = &written[..written.len() - written.trim_start().len()];
            (
                range.start,
                format!("{indent}# adieu: ignore[{list}] {REASON}\n"),
            )
        }
        Comment::Nowhere => return None,
    };
    Some(Fix {
        start: at,
        end: at,
        text,
        applicability: Applicability::Safe,
        import: None,
    })
}

#[cfg(test)]
mod tests {
    use super::comment;
    use crate::fix::apply;
    use crate::rule::{BLOCKING_SLEEP, SHELL_FORM};

    fn with(path: &str, text: &str) -> Option<String> {
        let code = if path.ends_with(".py") {
            BLOCKING_SLEEP
        } else {
            SHELL_FORM
        };
        let fix = comment(path, text, 1, &[code])?;
        Some(apply(text, &[&fix]).0)
    }

    #[test]
    fn each_kind_of_file_has_its_comment() {
        let of = |path, text| with(path, text).unwrap_or_default();
        assert_eq!(of("a.py", "f()  \n"), "f()  # noqa: ADP101  \n");
        assert_eq!(
            of("a.py", "f()  # noqa: E501\n"),
            "f()  # noqa: ADP101, E501\n"
        );
        assert_eq!(
            of("a.rs", "f();\n"),
            concat!("f(); //", " adieu: ignore(ADD101) added by --add-noqa\n")
        );
        assert_eq!(
            of("Dockerfile", "CMD a\n"),
            "# adieu: ignore[ADD101] added by --add-noqa\nCMD a\n"
        );
        assert_eq!(with("task-def.json", "{}\n"), None);
        assert_eq!(with("a.py", "f(a, \\\n"), None);
    }
}
