//! A syntax tree of tree-sitter as one list of nodes in the order of the text.
//!
//! What stands below a node is a slice of that list, and its parent an index. No function of this
//! file recurses, so text of any depth is walked on any stack.

use std::cell::Cell;
use std::ops::{ControlFlow, Range};
use std::sync::LazyLock;

use tree_sitter::{Language, ParseOptions, Parser, TreeCursor};

/// The parser reports its progress less often than this on any program. Text that makes it try more
/// ways is given up.
const BYTES_A_STEP: usize = 8;

/// How many nodes the rules look at in one file. A program needs a small part of it; text made to
/// need more is given up.
const MOST_VISITS: u32 = 10_000_000;

/// What a text is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grammar {
    Go,
    TypeScript,
    /// TypeScript with JSX, and JavaScript.
    Tsx,
}

static GO: LazyLock<Language> = LazyLock::new(|| tree_sitter_go::LANGUAGE.into());
static TYPESCRIPT: LazyLock<Language> =
    LazyLock::new(|| tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into());
static TSX: LazyLock<Language> = LazyLock::new(|| tree_sitter_typescript::LANGUAGE_TSX.into());

impl Grammar {
    /// It is kept for good, and so are the names of its nodes.
    fn language(self) -> &'static Language {
        match self {
            Grammar::Go => &GO,
            Grammar::TypeScript => &TYPESCRIPT,
            Grammar::Tsx => &TSX,
        }
    }
}

/// A file of one of the languages that tree-sitter reads.
#[derive(Debug)]
pub(crate) struct FlatTree<'t> {
    text: &'t str,
    entries: Vec<TreeEntry>,
    visits_left: Cell<u32>,
}

#[derive(Debug)]
struct TreeEntry {
    kind: &'static str,
    field: Option<&'static str>,
    bytes: Range<u32>,
    parent: u32,
    /// Behind the last node below this one.
    end: u32,
}

/// A node of the tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlatNode<'t> {
    tree: &'t FlatTree<'t>,
    at: usize,
}

impl PartialEq for FlatNode<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<'t> FlatTree<'t> {
    /// Parses a text; nothing where the parser gives up. What cannot be parsed is left out of the tree, and the rest is
    /// in it.
    pub(crate) fn parse(text: &'t str, grammar: Grammar) -> Option<FlatTree<'t>> {
        let language = grammar.language();
        let mut parser = Parser::new();
        parser.set_language(language).ok()?;
        let mut steps = text.len() / BYTES_A_STEP + 10_000;
        let mut progress = |_: &tree_sitter::ParseState| {
            steps = steps.saturating_sub(1);
            match steps {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        };
        let mut read = |at: usize, _| text.as_bytes().get(at..).unwrap_or_default();
        let options = ParseOptions::new().progress_callback(&mut progress);
        let tree = parser.parse_with_options(&mut read, None, Some(options))?;
        let mut entries = Vec::new();
        flatten(&mut tree.walk(), language, &mut entries);
        Some(FlatTree {
            text,
            entries,
            visits_left: Cell::new(MOST_VISITS),
        })
    }

    /// Whether so many nodes were looked at that the last ones were left out.
    pub(crate) fn is_given_up(&self) -> bool {
        self.visits_left.get() == 0
    }

    fn visit(&self) -> bool {
        let left = self.visits_left.get().saturating_sub(1);
        self.visits_left.set(left);
        left > 0
    }

    /// The node of the whole file.
    pub(crate) fn root(&'t self) -> FlatNode<'t> {
        FlatNode { tree: self, at: 0 }
    }
}

/// Named nodes, parents before children.
fn flatten(cursor: &mut TreeCursor<'_>, language: &'static Language, entries: &mut Vec<TreeEntry>) {
    let mut open: Vec<usize> = Vec::new();
    loop {
        let node = cursor.node();
        let is_kept = node.is_named() || open.is_empty();
        if is_kept {
            entries.push(TreeEntry {
                kind: language.node_kind_for_id(node.kind_id()).unwrap_or("ERROR"),
                field: cursor
                    .field_id()
                    .and_then(|id| language.field_name_for_id(id.get())),
                bytes: node.start_byte() as u32..node.end_byte() as u32,
                parent: open.last().map_or(0, |at| *at as u32),
                end: entries.len() as u32 + 1,
            });
        }
        if is_kept && cursor.goto_first_child() {
            open.push(entries.len() - 1);
            continue;
        }
        while !cursor.goto_next_sibling() {
            let Some(parent) = open.pop() else { return };
            entries[parent].end = entries.len() as u32;
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}

impl<'t> FlatNode<'t> {
    fn entry(self) -> &'t TreeEntry {
        &self.tree.entries[self.at]
    }

    fn at(self, at: usize) -> FlatNode<'t> {
        FlatNode { at, ..self }
    }

    /// The name of the node in the grammar.
    pub(crate) fn kind(self) -> &'static str {
        self.entry().kind
    }

    /// Whether it is of this kind.
    pub(crate) fn is(self, kind: &str) -> bool {
        self.entry().kind == kind
    }

    /// The source of the node.
    pub(crate) fn text(self) -> &'t str {
        let bytes = &self.entry().bytes;
        self.tree
            .text
            .get(bytes.start as usize..bytes.end as usize)
            .unwrap_or_default()
    }

    /// Where it starts, in bytes.
    pub(crate) fn start(self) -> usize {
        self.entry().bytes.start as usize
    }

    /// Where it ends, in bytes.
    pub(crate) fn end(self) -> usize {
        self.entry().bytes.end as usize
    }

    /// The node above it.
    pub(crate) fn parent(self) -> Option<FlatNode<'t>> {
        (self.at > 0).then(|| self.at(self.entry().parent as usize))
    }

    /// The nodes above it, from the nearest on.
    pub(crate) fn ancestors(self) -> impl Iterator<Item = FlatNode<'t>> {
        std::iter::successors(self.parent(), |node| node.parent())
    }

    /// The nodes right below it.
    pub(crate) fn children(self) -> impl Iterator<Item = FlatNode<'t>> {
        let end = self.entry().end as usize;
        let first = Some(self.at + 1).filter(|at| *at < end);
        std::iter::successors(first, move |at| {
            Some(self.tree.entries[*at].end as usize).filter(|at| *at < end)
        })
        .take_while(move |_| self.tree.visit())
        .map(move |at| self.at(at))
    }

    /// The child in this role.
    pub(crate) fn child(self, field: &str) -> Option<FlatNode<'t>> {
        self.children()
            .find(|child| child.entry().field == Some(field))
    }

    /// The only child, or the first of several.
    pub(crate) fn first(self) -> Option<FlatNode<'t>> {
        self.children().next()
    }

    /// All nodes below it, in the order of the text.
    pub(crate) fn below(self) -> impl Iterator<Item = FlatNode<'t>> {
        (self.at + 1..self.entry().end as usize)
            .take_while(move |_| self.tree.visit())
            .map(move |at| self.at(at))
    }

    /// Where the comments below it stand, in bytes.
    pub(crate) fn comments(self) -> impl Iterator<Item = Range<usize>> {
        let comments = self.below().filter(|node| node.is("comment"));
        comments.map(|comment| comment.start()..comment.end())
    }

    /// Whether the other one is below it, or is the same.
    pub(crate) fn holds(self, other: FlatNode<'t>) -> bool {
        (self.at..self.entry().end as usize).contains(&other.at)
    }
}

#[cfg(test)]
mod tests {
    use super::{FlatTree, Grammar};

    fn go(text: &str) -> FlatTree<'_> {
        FlatTree::parse(text, Grammar::Go).expect("a tree")
    }

    #[test]
    fn nodes_know_what_is_above_and_below() {
        let tree = go("package main\nfunc main() { run(1, 2) }\n");
        let call = tree.root().below().find(|node| node.is("call_expression"));
        let call = call.expect("a call");
        assert_eq!(call.text(), "run(1, 2)");
        assert_eq!(call.child("function").map(|it| it.text()), Some("run"));
        let arguments = call.child("arguments").expect("arguments");
        let texts: Vec<&str> = arguments.children().map(|it| it.text()).collect();
        assert_eq!(texts, ["1", "2"]);
        let above: Vec<&str> = call.ancestors().map(|it| it.kind()).collect();
        assert!(above.contains(&"function_declaration"), "{above:?}");
        assert_eq!(above.last(), Some(&"source_file"));
        assert!(tree.root().holds(call) && !call.holds(tree.root()));
    }

    #[test]
    fn what_cannot_be_parsed_leaves_the_rest() {
        let tree = go("package main\nfunc broken( {{{\nfunc main() { run() }\n");
        assert!(tree.root().below().any(|node| node.text() == "run()"));
    }
}
