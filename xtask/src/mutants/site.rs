//! A place in a source file that can be changed, and the changes.

use std::ops::Range;

/// What one change is called, and what it puts in the place of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// As in `== to !=`.
    pub(super) operator: String,
    /// An expression, or what a function returns; nothing for a statement that is left out.
    pub(super) code: String,
}

impl Change {
    pub(super) fn new(operator: impl Into<String>, code: impl Into<String>) -> Self {
        Self {
            operator: operator.into(),
            code: code.into(),
        }
    }
}

/// How a change is written into the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `(if chosen { changed } else { original })`.
    Expression,
    /// `if chosen {} else { original }`.
    Statement,
    /// `if chosen { return changed; }`, before the first statement of a function.
    Entry,
    /// Blanks, in any case: the `const` of a function that asks at run time.
    Blank,
}

#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) range: Range<usize>,
    pub(super) form: Form,
    pub(super) changes: Vec<Change>,
    /// The function it is in, with its type, as in `Budget::divide`.
    pub(super) function: String,
    /// The original text, on one line.
    pub(super) text: String,
    pub(super) line: usize,
    /// The name of the `const fn` around it.
    pub(super) in_const: Option<String>,
}

/// One mutant: a change of a site.
#[derive(Clone, Debug)]
pub(super) struct Mutant {
    pub(super) module: &'static str,
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) function: String,
    pub(super) operator: String,
    pub(super) text: String,
    /// Tells it from others of the same file, function, operator and text: the first is 1.
    pub(super) nth: usize,
}

impl Mutant {
    /// Stays the same when lines move.
    pub(super) fn key(&self) -> String {
        format!(
            "{}|{}|{}|{}|{}",
            self.file, self.function, self.operator, self.text, self.nth
        )
    }
}
