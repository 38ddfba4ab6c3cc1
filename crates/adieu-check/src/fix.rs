//! Repairs: one edit each, and whether it may change what the program does.

/// Whether a repair may change what the program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Applicability {
    /// The program does what it did; only the signal gets through.
    Safe,
    /// The program may behave differently, and someone who knows it should look.
    Unsafe,
}

/// Replace one byte range of a file by a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// First byte to replace.
    pub start: usize,
    /// First byte to keep again.
    pub end: usize,
    /// What stands there instead.
    pub text: String,
    /// Whether it may change what the program does.
    pub applicability: Applicability,
    /// A module that the new text needs imported.
    pub import: Option<&'static str>,
}

/// Applies what does not overlap, in the order of the text. Returns the new text and which fixes
/// went in; an overlapping one waits for the next run.
pub(crate) fn apply(source: &str, fixes: &[&Fix]) -> (String, Vec<bool>) {
    let mut ordered: Vec<usize> = (0..fixes.len()).collect();
    ordered.sort_by_key(|index| (fixes[*index].start, fixes[*index].end));
    let mut out = String::with_capacity(source.len());
    let mut kept_to = 0;
    let mut applied = vec![false; fixes.len()];
    let mut last: Option<&Fix> = None;
    for index in ordered {
        let fix = fixes[index];
        if last == Some(fix) {
            // One edit that mends several findings.
            applied[index] = true;
            continue;
        }
        let fits = fix.start >= kept_to
            && fix.start <= fix.end
            && source.is_char_boundary(fix.start)
            && source.is_char_boundary(fix.end);
        if !fits {
            continue;
        }
        out.push_str(&source[kept_to..fix.start]);
        out.push_str(&fix.text);
        kept_to = fix.end;
        applied[index] = true;
        last = Some(fix);
    }
    out.push_str(&source[kept_to..]);
    (out, applied)
}

#[cfg(test)]
mod tests {
    use super::{Applicability, Fix, apply};

    fn fix(start: usize, end: usize, text: &str) -> Fix {
        Fix {
            start,
            end,
            text: text.into(),
            applicability: Applicability::Safe,
            import: None,
        }
    }

    #[test]
    fn fixes_go_in_whatever_their_order() {
        assert_eq!(
            apply("abcdef", &[&fix(4, 5, "E"), &fix(0, 1, "A")]),
            ("AbcdEf".into(), vec![true, true])
        );
    }

    #[test]
    fn the_second_of_two_overlapping_fixes_waits() {
        assert_eq!(
            apply("abcdef", &[&fix(0, 3, "x"), &fix(2, 4, "y")]),
            ("xdef".into(), vec![true, false])
        );
    }

    #[test]
    fn one_edit_for_two_findings_goes_in_once() {
        assert_eq!(
            apply("ab", &[&fix(1, 1, "x"), &fix(1, 1, "x")]),
            ("axb".into(), vec![true, true])
        );
    }

    #[test]
    fn a_range_outside_the_text_is_left_alone() {
        assert_eq!(apply("ab", &[&fix(1, 9, "x")]), ("ab".into(), vec![false]));
    }
}
