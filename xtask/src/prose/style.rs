//! The house style that a list of phrases cannot hold: a negated noun, a comment that leans on the one before it, a
//! heading that is a sentence.

use super::words::{Kind, Line, Word};

/// What may follow `is no` as an adverb or an idiom.
const ADVERBS: &[&str] = &[
    "longer",
    "more",
    "other",
    "less",
    "later",
    "earlier",
    "larger",
    "smaller",
    "different",
    "way",
];

/// Each place with what is wrong there.
pub(super) fn findings(lines: &[Line], words: &[Word]) -> Vec<(usize, String)> {
    let mut found = negated_nouns(words);
    let mut in_code = false;
    for line in lines {
        if line.text.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        match line.kind {
            Kind::Doc if !line.joined && line.text.starts_with("The same") => {
                let what = "\"The same\": say what it is; a reader may not see the item before";
                found.push((line.number, what.to_owned()));
            }
            Kind::Page if !in_code && is_sentence(&line.text) => {
                let what = "a heading names its section and is not a sentence";
                found.push((line.number, what.to_owned()));
            }
            _ => {}
        }
    }
    found
}

/// `X is no Y`, where English has `X is not a Y`.
fn negated_nouns(words: &[Word]) -> Vec<(usize, String)> {
    let word = |at: usize| words.get(at).map_or("", |(_, word)| word.as_str());
    (1..words.len())
        .filter(|&at| word(at) == "is" && word(at + 1) == "no")
        .filter(|&at| word(at - 1) != "there" && !ADVERBS.contains(&word(at + 2)))
        .filter(|&at| !word(at + 2).is_empty())
        .map(|at| {
            let noun = word(at + 2);
            (
                words[at].0,
                format!("\"is no {noun}\": write \"is not a {noun}\", or say what it is"),
            )
        })
        .collect()
}

fn is_sentence(line: &str) -> bool {
    let Some(heading) = line.strip_prefix('#') else {
        return false;
    };
    let heading = heading.trim_start_matches('#');
    heading.starts_with(' ') && (heading.trim_end().ends_with(['.', '!']) || heading.contains(';'))
}

#[cfg(test)]
mod tests {
    use super::super::{rust, words};
    use super::*;

    fn of_page(page: &str) -> Vec<usize> {
        let lines = words::lines_of_page(page);
        lines_found(&lines)
    }

    fn of_rust(source: &str) -> Vec<usize> {
        let lines = rust::lines_of(source);
        lines_found(&lines)
    }

    fn lines_found(lines: &[Line]) -> Vec<usize> {
        let found = findings(lines, &words::words_of(lines));
        found.into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn a_negated_noun_is_found_and_an_adverb_is_not() {
        assert_eq!(of_page("A scope is no service.\n"), [1]);
        assert_eq!(of_page("It is\nno service.\n"), [1]);
        assert!(of_page("There is no service. It is no longer one.\n").is_empty());
        assert_eq!(of_rust("f(\"`{x}` is no signal\");\n// is no\n"), [1]);
    }

    #[test]
    fn a_doc_comment_does_not_begin_with_the_same() {
        assert_eq!(of_rust("/// The same, slower.\nfn f() {}\n"), [1]);
        assert!(of_rust("/// One line.\n/// The same file is read.\n").is_empty());
    }

    #[test]
    fn a_heading_is_not_a_sentence() {
        assert_eq!(of_page("# No room, no right.\n"), [1]);
        assert!(of_page("# Disk full\n\n#[derive(Debug)]\n```sh\n# one; two.\n```\n").is_empty());
    }
}
