//! A unified diff of one file.

use similar::TextDiff;

use super::plain;

/// What turns one text into the other, as `patch -p0` reads it; empty for equal texts.
///
/// What a terminal or the runner of a workflow would act on is spelled out as in all other output. Such a line no
/// longer matches the file, and `patch` refuses it.
#[must_use]
pub fn diff(path: &str, before: &str, after: &str) -> String {
    // Lines end where git and patch end them: a lone carriage return is a character.
    let (before, after) = (lines(before), lines(after));
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    let after: Vec<&str> = after.iter().map(String::as_str).collect();
    let path = plain(path);
    TextDiff::configure()
        .newline_terminated(true)
        .diff_slices(&before, &after)
        .unified_diff()
        .header(&path, &path)
        .to_string()
}

fn lines(text: &str) -> Vec<String> {
    text.split_inclusive('\n').map(spelled).collect()
}

/// A line with its end and its tabs as they are.
fn spelled(line: &str) -> String {
    let body = line.trim_end_matches(['\r', '\n']);
    let end = &line[body.len()..];
    let words: Vec<_> = body.split('\t').map(plain).collect();
    format!("{}{end}", words.join("\t"))
}

#[cfg(test)]
mod tests {
    use super::diff;

    #[test]
    fn equal_texts_have_no_diff() {
        assert_eq!(diff("a.py", "x\n", "x\n"), "");
    }

    #[test]
    fn ends_of_lines_and_tabs_are_kept() {
        assert_eq!(
            diff("a.py", "\tx\r\ny", "\tz\r\ny"),
            "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n-\tx\r\n+\tz\r\n y\n\\ No newline at end of file\n"
        );
    }

    #[test]
    fn what_a_terminal_or_a_runner_acts_on_is_spelled_out() {
        assert_eq!(
            diff("a\n.py", "::x\u{1b}[2J\ny\n", "::x\u{1b}[2J\nz\n"),
            "--- a\\n.py\n+++ a\\n.py\n@@ -1,2 +1,2 @@\n ./::x\\u{1b}[2J\n-y\n+z\n"
        );
    }
}
