//! Writes the changes into the text, and remembers where each of them went: the compiler names places.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

use super::site::{Form, Site};

/// The function of the runtime that says whether a mutant is chosen.
const ASK: &str = "crate::mutants_runtime::on";

/// The number of a mutant.
pub(super) type Id = u32;

/// A source file with its sites; the changes of a site are numbered from `first` on.
pub(super) struct Numbered {
    pub(super) site: Site,
    pub(super) first: Id,
}

#[derive(Default)]
pub(super) struct Rendered {
    pub(super) text: String,
    /// The text of one change.
    pub(super) changes: Vec<(Range<usize>, Id)>,
    /// All of a site, with the changes it still has.
    pub(super) sites: Vec<(Range<usize>, Vec<Id>)>,
}

/// Leaves out the changes that do not compile.
pub(super) fn render(source: &str, sites: &[Numbered], unviable: &BTreeSet<Id>) -> Rendered {
    let mut sorted: Vec<&Numbered> = sites.iter().collect();
    // Stable: of two with the same range the one found first is the outer one.
    sorted.sort_by_key(|it| (it.site.range.start, Reverse(it.site.range.end)));
    let mut rendered = Rendered::default();
    let writer = Writer { source, unviable };
    writer.write(&mut rendered, 0..source.len(), &sorted);
    rendered
}

struct Writer<'a> {
    source: &'a str,
    unviable: &'a BTreeSet<Id>,
}

impl Writer<'_> {
    fn write(&self, out: &mut Rendered, range: Range<usize>, sites: &[&Numbered]) {
        let mut at = range.start;
        let mut rest = sites;
        while let Some((outer, after)) = rest.split_first() {
            let site = &outer.site.range;
            out.text.push_str(&self.source[at..site.start]);
            let inside = after
                .iter()
                .take_while(|it| it.site.range.end <= site.end && it.site.range.start < site.end)
                .count();
            let (inner, beyond) = after.split_at(inside);
            self.write_site(out, outer, inner);
            at = site.end;
            rest = beyond;
        }
        out.text.push_str(&self.source[at..range.end]);
    }

    fn write_site(&self, out: &mut Rendered, outer: &Numbered, inner: &[&Numbered]) {
        let site = &outer.site;
        let changes: Vec<(Id, &str)> = (outer.first..)
            .zip(&site.changes)
            .filter(|(id, _)| !self.unviable.contains(id))
            .map(|(id, change)| (id, change.code.as_str()))
            .collect();
        let from = out.text.len();
        match site.form {
            Form::Blank => out.text.push_str(&" ".repeat(site.range.len())),
            Form::Entry => {
                for (id, code) in &changes {
                    let _ = write!(out.text, " if {ASK}({id}) {{ return ");
                    Self::write_change(out, *id, code);
                    out.text.push_str("; }");
                }
            }
            _ if changes.is_empty() => self.write(out, site.range.clone(), inner),
            Form::Expression => {
                out.text.push('(');
                for (id, code) in &changes {
                    let _ = write!(out.text, "if {ASK}({id}) {{ ");
                    Self::write_change(out, *id, code);
                    out.text.push_str(" } else ");
                }
                out.text.push_str("{ ");
                self.write(out, site.range.clone(), inner);
                out.text.push_str(" })");
            }
            Form::Statement => {
                let _ = write!(out.text, "if {ASK}({}) {{}} else {{ ", changes[0].0);
                self.write(out, site.range.clone(), inner);
                out.text.push_str(" }");
            }
        }
        let ids = changes.into_iter().map(|(id, _)| id).collect();
        out.sites.push((from..out.text.len(), ids));
    }

    fn write_change(out: &mut Rendered, id: Id, code: &str) {
        let from = out.text.len();
        out.text.push_str(code);
        out.changes.push((from..out.text.len(), id));
    }
}

impl Rendered {
    /// The mutants whose own text an error is in.
    pub(super) fn changed_at(&self, place: &Range<usize>) -> Vec<Id> {
        self.changes
            .iter()
            .filter(|(range, _)| holds(range, place))
            .map(|(_, id)| *id)
            .collect()
    }

    /// The mutants of the innermost site around an error.
    pub(super) fn site_around(&self, place: &Range<usize>) -> Vec<Id> {
        self.sites
            .iter()
            .filter(|(range, ids)| holds(range, place) && !ids.is_empty())
            .min_by_key(|(range, _)| range.len())
            .map(|(_, ids)| ids.clone())
            .unwrap_or_default()
    }
}

/// Whether the place is within the range.
fn holds(range: &Range<usize>, place: &Range<usize>) -> bool {
    range.start <= place.start && place.end <= range.end
}

#[cfg(test)]
mod tests {
    use super::super::scan::scan;
    use super::*;

    fn numbered(source: &str) -> Vec<Numbered> {
        let mut first = 0;
        let number = |site: Site| {
            let numbered = Numbered { site, first };
            first += Id::try_from(numbered.site.changes.len()).expect("few");
            numbered
        };
        let sites = scan(source, &BTreeSet::from(["kept".to_owned()])).expect("it parses");
        sites.into_iter().map(number).collect()
    }

    /// The changes of a function body, as `original => operator`.
    fn changes(body: &str) -> Vec<String> {
        numbered(&format!("fn f() -> Foo {{ {body} }}"))
            .into_iter()
            .flat_map(|it| {
                let text = it.site.text;
                let operators = it.site.changes.into_iter().map(|change| change.operator);
                operators
                    .map(|operator| format!("{text} => {operator}"))
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// Without the questions: what is left when a mutant is chosen, or none.
    fn chosen(source: &str, mutant: Option<Id>) -> String {
        let rendered = render(source, &numbered(source), &BTreeSet::new());
        let mut text = rendered.text;
        syn::parse_file(&text).expect("what is written parses");
        for id in 0..100 {
            let value = if mutant == Some(id) { "true" } else { "false" };
            text = text.replace(&format!("{ASK}({id})"), value);
        }
        text
    }

    #[test]
    fn a_comparison_is_written_with_its_changes() {
        let source = "fn f(a: u8) -> Foo { foo(a < 1) }";
        assert_eq!(
            chosen(source, Some(1)),
            "fn f(a: u8) -> Foo { foo((if false { (a) <= (1) } else if true { (a) >= (1) } else { a < 1 })) }"
        );
    }

    #[test]
    fn a_change_has_the_original_text_inside_and_the_rest_has_the_other_changes() {
        let source = "fn f() -> Foo { foo(a == b && !c) }";
        assert_eq!(
            chosen(source, None),
            "fn f() -> Foo { foo((if false { (a == b) || (!c) } else { (if false { (a) != (b) } else { a == b }) && \
             (if false { c } else { !c }) })) }"
        );
    }

    #[test]
    fn a_statement_is_left_out_and_a_function_returns_at_once() {
        let source = "fn f() { file.sync_all()?; other() }";
        assert_eq!(
            chosen(source, Some(0)),
            "fn f() { if true { return ; } if false {} else { file.sync_all()?; } if false {} else { other() } }"
        );
    }

    #[test]
    fn conditions_become_true_and_false_unless_they_bind() {
        assert_eq!(
            changes("if a { x }"),
            ["a => condition to true", "a => condition to false"]
        );
        assert_eq!(
            changes("if let Some(a) = b && c { x }"),
            ["c => condition to true", "c => condition to false"]
        );
        assert_eq!(changes("while a { }"), ["a => condition to false"]);
        assert_eq!(
            changes("match x { a if b => c, d if let e = f => g }"),
            ["b => condition to true", "b => condition to false"]
        );
    }

    #[test]
    fn acts_are_left_out_also_in_the_arms_of_a_match_without_value() {
        assert_eq!(
            changes("match x { A => a.go(), B => { let c = 1; c.go() } } foo"),
            ["a.go() => left out", "c.go() => left out"]
        );
        assert_eq!(
            changes("let _ = a.go(); foo"),
            ["let _ = a.go(); => left out"]
        );
        assert_eq!(changes("*state = New; foo"), ["*state = New; => left out"]);
        assert_eq!(changes("match x { A => a.go(), B => b.go() }"), [""; 0]);
    }

    #[test]
    fn methods_have_opposites() {
        assert_eq!(changes("a.min(b)"), ["a.min(b) => min to max"]);
        assert_eq!(changes("a.iter().min()"), [""; 0]);
        let source = "fn f() -> Foo { a.is_empty() }";
        assert!(chosen(source, Some(0)).contains("{ !a.is_empty() }"));
        assert_eq!(
            changes("matches!(a, B | C)"),
            ["matches!(a, B | C) => matches! to !matches!"]
        );
    }

    #[test]
    fn constants_tests_and_macros_are_left_alone() {
        for source in [
            "const A: bool = 1 < 2;",
            "static B: u8 = 1 + 1;",
            "#[cfg(test)] mod tests { fn f() -> bool { 1 < 2 } }",
            "#[test] fn f() { assert_eq!(1 + 1, 2); a.b(); }",
            "#[cfg(windows)] fn f() -> bool { 1 < 2 }",
            "impl Debug for A { fn fmt(&self) -> bool { 1 < 2 } }",
            "fn f() -> [u8; 1 + 2] { [0; 1 + 2] }",
            "fn f() -> Foo { vec![1 + 2] }",
            "const fn kept() -> bool { 1 < 2 }",
        ] {
            assert_eq!(numbered(source).len(), 0, "{source}");
        }
    }

    #[test]
    fn a_const_fn_with_a_change_is_const_no_more() {
        let source = "const fn f() -> Foo { g(1 < 2) } const fn h() -> Foo { Foo }";
        let text = chosen(source, None);
        assert!(text.starts_with("      fn f()"), "{text}");
        assert!(text.ends_with("const fn h() -> Foo { Foo }"), "{text}");
    }

    #[test]
    fn an_error_is_blamed_on_the_change_it_is_in_or_the_site_around_it() {
        let source = "fn f(a: u8) -> Foo { foo(a < 1) }";
        let sites = numbered(source);
        let rendered = render(source, &sites, &BTreeSet::new());
        let at = |part: &str| {
            let start = rendered.text.find(part).expect("it is there");
            start..start + part.len()
        };
        assert_eq!(rendered.changed_at(&at("(a) >= (1)")), [1]);
        assert_eq!(rendered.changed_at(&at("a < 1")), [0; 0]);
        assert_eq!(rendered.site_around(&at("a < 1")), [0, 1]);
        assert_eq!(rendered.site_around(&at("foo")), [0; 0]);
        let fewer = render(source, &sites, &BTreeSet::from([0, 1]));
        assert_eq!(fewer.text, source);
    }
}
