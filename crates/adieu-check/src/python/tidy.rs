//! The imports of a file after a repair: a missing one is added, one that the repair left unused is removed.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Alias, Expr, ModModule, Stmt, StringLiteral};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::FxHashMap;

use crate::fix::{Applicability, Fix, apply};

/// Longer text in quotes is not read as an annotation.
const LONGEST_ANNOTATION: usize = 200;

/// The repaired text with its imports in order, or nothing when a needed import cannot be added.
///
/// `package` is true for an `__init__.py`: what is imported there may be meant for other files, and stays.
pub(crate) fn tidy_imports(
    before: &str,
    after: &str,
    needed: &[&str],
    package: bool,
) -> Option<String> {
    let Some(old) = parse(before) else {
        return needed.is_empty().then(|| after.to_owned());
    };
    let Some(new) = parse(after) else {
        // The check of the new text says what is wrong with it.
        return Some(after.to_owned());
    };
    let mut edits = Vec::new();
    for module in needed {
        if !is_imported(&new.body, module) {
            edits.push(addition(after, &new.body, module)?);
        }
    }
    let (was, is) = (imports(&old.body), imports(&new.body));
    if !package && was.len() == is.len() {
        for (was, is) in was.iter().zip(&is) {
            edits.extend(removal(after, was, is));
        }
    }
    let edits: Vec<&Fix> = edits.iter().collect();
    Some(apply(after, &edits).0)
}

fn parse(source: &str) -> Option<ModModule> {
    let parsed = ruff_python_parser::parse_module(source).ok()?;
    Some(parsed.into_syntax())
}

/// An import, and how often each of its names is used.
struct Import<'a> {
    range: TextRange,
    names: &'a [Alias],
    uses: Vec<usize>,
}

/// The imports directly in the module or in a function: one under a condition or in a `try` has its reasons.
fn imports(module: &[Stmt]) -> Vec<Import<'_>> {
    let mut found = Vec::new();
    collect(module, &mut found);
    let mut functions = Functions(Vec::new());
    functions.visit_body(module);
    for body in functions.0 {
        collect(body, &mut found);
    }
    found
}

fn collect<'a>(body: &'a [Stmt], found: &mut Vec<Import<'a>>) {
    let is_import = |stmt: &Stmt| matches!(stmt, Stmt::Import(_) | Stmt::ImportFrom(_));
    if !body.iter().any(is_import) {
        return;
    }
    let mut used = Uses::default();
    used.visit_body(body);
    for stmt in body {
        let names = match stmt {
            Stmt::Import(import) => &import.names,
            Stmt::ImportFrom(import) => &import.names,
            _ => continue,
        };
        let count = |alias| used.0.get(bound(alias)).copied().unwrap_or(0);
        let uses = names.iter().map(count).collect();
        found.push(Import {
            range: stmt.range(),
            names,
            uses,
        });
    }
}

/// The name that an import binds.
fn bound(alias: &Alias) -> &str {
    match &alias.asname {
        Some(name) => name,
        None => alias.name.split('.').next().unwrap_or(&alias.name),
    }
}

struct Functions<'a>(Vec<&'a [Stmt]>);

impl<'a> Visitor<'a> for Functions<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::FunctionDef(function) = stmt {
            self.0.push(&function.body);
        }
        visitor::walk_stmt(self, stmt);
    }
}

/// How often each name stands in an expression.
#[derive(Default)]
struct Uses(FxHashMap<String, usize>);

impl Uses {
    fn add(&mut self, name: &str) {
        match self.0.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                self.0.insert(name.to_owned(), 1);
            }
        }
    }
}

impl<'a> Visitor<'a> for Uses {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::Global(global) = stmt {
            for name in &global.names {
                self.add(name);
            }
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Name(name) = expr {
            self.add(&name.id);
        }
        visitor::walk_expr(self, expr);
    }

    // `__all__`, and annotations in quotes.
    fn visit_string_literal(&mut self, literal: &'a StringLiteral) {
        let text: &str = &literal.value;
        if text.len() <= LONGEST_ANNOTATION
            && let Ok(parsed) = ruff_python_parser::parse_expression(text)
        {
            let mut inner = ImportedNames::default();
            inner.visit_expr(parsed.expr());
            for name in inner.0 {
                self.add(&name);
            }
        }
    }
}

/// The names of a text in quotes, without what stands in quotes there.
#[derive(Default)]
struct ImportedNames(Vec<String>);

impl<'a> Visitor<'a> for ImportedNames {
    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Name(name) = expr {
            self.0.push(name.id.to_string());
        }
        visitor::walk_expr(self, expr);
    }
}

/// Whether the module binds the name by an import, be it under a condition or in a `try`.
fn is_imported(module: &[Stmt], name: &str) -> bool {
    let mut find = Find { name, found: false };
    find.visit_body(module);
    find.found
}

struct Find<'n> {
    name: &'n str,
    found: bool,
}

impl<'a> Visitor<'a> for Find<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        let names = match stmt {
            Stmt::Import(import) => &import.names,
            Stmt::ImportFrom(import) => &import.names,
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => return,
            // Nothing under it runs.
            Stmt::If(branch) if is_type_checking(&branch.test) => return,
            _ => return visitor::walk_stmt(self, stmt),
        };
        self.found |= names.iter().any(|alias| bound(alias) == self.name);
    }
}

fn is_type_checking(test: &Expr) -> bool {
    match test {
        Expr::Name(name) => name.id == "TYPE_CHECKING",
        Expr::Attribute(attribute) => attribute.attr.as_str() == "TYPE_CHECKING",
        _ => false,
    }
}

fn imports_at_top(module: &[Stmt]) -> impl Iterator<Item = (usize, &Stmt)> {
    module
        .iter()
        .enumerate()
        .filter(|(_, stmt)| matches!(stmt, Stmt::Import(_) | Stmt::ImportFrom(_)))
}

/// `import module` in front of the first import that sorts behind it.
fn addition(source: &str, module: &[Stmt], name: &str) -> Option<Fix> {
    let mut place = None;
    for (index, stmt) in imports_at_top(module) {
        let behind = match stmt {
            Stmt::Import(import) => import
                .names
                .first()
                .is_some_and(|alias| alias.name.as_str() > name),
            Stmt::ImportFrom(import) => {
                let from = import.module.as_deref();
                from != Some("__future__")
            }
            _ => false,
        };
        if behind {
            place = Some(stmt.range().start().to_usize());
            break;
        }
        place = behind_line(source, stmt, module.get(index + 1)).or(place);
    }
    if place.is_none() {
        // Behind the text that describes the module.
        let described = usize::from(module.first().is_some_and(is_text));
        place = module
            .get(described)
            .map(|stmt| stmt.range().start().to_usize());
    }
    let at = place?;
    let is_line_start = at == 0 || source[..at].ends_with('\n');
    is_line_start.then(|| Fix {
        start: at,
        end: at,
        text: format!("import {name}{}", line_end(source)),
        applicability: Applicability::Unsafe,
        import: None,
    })
}

/// The start of the line behind a statement, unless the next one begins before it.
fn behind_line(source: &str, stmt: &Stmt, next: Option<&Stmt>) -> Option<usize> {
    let end = stmt.range().end().to_usize();
    let at = end + source[end..].find('\n')? + 1;
    (next?.range().start().to_usize() >= at).then_some(at)
}

fn is_text(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Expr(expr) if matches!(*expr.value, Expr::StringLiteral(_)))
}

fn line_end(source: &str) -> &'static str {
    match source.split_once('\n') {
        Some((line, _)) if line.ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Removes the name that was used before the repair and is not now.
fn removal(source: &str, was: &Import<'_>, is: &Import<'_>) -> Option<Fix> {
    let unused: Vec<usize> = (0..is.names.len())
        .filter(|index| {
            let alias = &is.names[*index];
            // `import time as time` says that it is for other files.
            let exported = alias
                .asname
                .as_ref()
                .is_some_and(|name| **name == *alias.name);
            is.uses[*index] == 0 && was.uses.get(*index).is_some_and(|uses| *uses > 0) && !exported
        })
        .collect();
    let (start, end) = match unused.as_slice() {
        [_] if is.names.len() == 1 => whole_line(source, is.range)?,
        [0] => (
            is.names[0].range().start().to_usize(),
            is.names[1].range().start().to_usize(),
        ),
        [index] => (
            is.names[*index - 1].range().end().to_usize(),
            is.names[*index].range().end().to_usize(),
        ),
        _ => return None,
    };
    // A comment there is not ours to remove.
    (!source[start..end].contains('#')).then(|| Fix {
        start,
        end,
        text: String::new(),
        applicability: Applicability::Unsafe,
        import: None,
    })
}

/// The lines of a statement that has them to itself.
fn whole_line(source: &str, range: TextRange) -> Option<(usize, usize)> {
    let (start, end) = (range.start().to_usize(), range.end().to_usize());
    let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = source[end..]
        .find('\n')
        .map_or(source.len(), |at| end + at + 1);
    let alone =
        source[line_start..start].trim().is_empty() && source[end..line_end].trim().is_empty();
    alone.then_some((line_start, line_end))
}

#[cfg(test)]
mod tests {
    use super::tidy_imports;

    /// A file whose `time.sleep` became `asyncio.sleep`, from its imports and what else it says.
    fn tidied(imports: &str, call: &str, rest: &str) -> String {
        let body = |call: &str| format!("{imports}\nasync def f():\n    {call}(1)\n{rest}");
        let after = tidy_imports(
            &body(call),
            &body("await asyncio.sleep"),
            &["asyncio"],
            false,
        )
        .expect("a place");
        after
            .split("\nasync def")
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    #[test]
    fn the_needed_import_is_added_once_and_the_unused_one_removed() {
        for (imports, after) in [
            ("import time\n", "import asyncio\n"),
            ("import asyncio\nimport time\n", "import asyncio\n"),
            ("import abc\nimport time\n", "import abc\nimport asyncio\n"),
            (
                "\"\"\"Text.\"\"\"\nfrom __future__ import annotations\nimport time\nfrom x import y\n",
                "\"\"\"Text.\"\"\"\nfrom __future__ import annotations\nimport asyncio\nfrom x import y\n",
            ),
            ("import os, time\n", "import asyncio\nimport os\n"),
            ("import time, zlib\n", "import asyncio\nimport zlib\n"),
            (
                "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import asyncio\nimport time\n",
                "import asyncio\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import asyncio\n",
            ),
            (
                "try:\n    import asyncio\nexcept ImportError:\n    asyncio = None\nimport time\n",
                "try:\n    import asyncio\nexcept ImportError:\n    asyncio = None\n",
            ),
            (
                "#!/usr/bin/python\nimport time\r\n",
                "#!/usr/bin/python\nimport asyncio\n",
            ),
        ] {
            assert_eq!(tidied(imports, "time.sleep", ""), after, "{imports}");
        }
        let from = "from time import (\n    monotonic,\n    sleep,\n)\n";
        assert_eq!(
            tidied(from, "sleep", ""),
            "import asyncio\nfrom time import (\n    monotonic,\n)\n"
        );
    }

    #[test]
    fn an_import_that_has_a_use_or_a_reason_stays() {
        for (imports, rest) in [
            ("import time\n", "x = time.time()\n"),
            ("import time\n", "__all__ = ['time']\n"),
            ("import time\n", "def g(x: 'time.struct_time'): pass\n"),
            ("import time\n", "def g():\n    global time\n"),
            ("import time  # noqa\n", ""),
            ("import time as time\n", ""),
            ("import time; x = 1\n", ""),
            ("try:\n    import time\nexcept ImportError:\n    pass\n", ""),
        ] {
            let after = tidied(imports, "time.sleep", rest);
            assert!(after.contains(imports), "{imports}{rest} became {after}");
        }
        let unused = "import asyncio\nimport os\nimport time\n";
        assert_eq!(
            tidied(unused, "time.sleep", ""),
            "import asyncio\nimport os\n",
            "what was unused before is not touched"
        );
        let package = "import time\nasync def f():\n    time.sleep(1)\n";
        let after = package.replace("time.sleep", "await asyncio.sleep");
        assert_eq!(
            tidy_imports(package, &after, &["asyncio"], true),
            Some(format!("import asyncio\n{after}"))
        );
    }

    #[test]
    fn an_import_that_sorts_last_stands_behind_the_others() {
        let before = "import abc  # text\n\n\nasync def f():\n    import time\n    time.sleep(1)\n";
        let after = before.replace("time.sleep", "await asyncio.sleep");
        assert_eq!(
            tidy_imports(before, &after, &["asyncio"], false),
            Some(
                "import abc  # text\nimport asyncio\n\n\nasync def f():\n    await asyncio.sleep(1)\n"
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_file_that_does_not_parse_gets_no_import() {
        let broken = "x = (\n";
        assert_eq!(tidy_imports(broken, broken, &["asyncio"], false), None);
        assert_eq!(
            tidy_imports(broken, broken, &[], false),
            Some(broken.to_owned())
        );
    }

    #[test]
    fn an_import_in_a_function_is_removed_there() {
        let before = "async def f():\n    import time\n    time.sleep(1)\n";
        let after = before.replace("time.sleep", "await asyncio.sleep");
        assert_eq!(
            tidy_imports(before, &after, &["asyncio"], false),
            Some("import asyncio\nasync def f():\n    await asyncio.sleep(1)\n".to_owned())
        );
    }
}
