//! The map, `ARCHITECTURE.md`: each function that it names is in a file that stands on the same line.

use std::fs;

use crate::checkout::Checkout;

/// What stands between a pair of marks on a line.
fn between<'a>(line: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    let parts = line.split(open).skip(1);
    parts
        .filter_map(|part| part.split_once(close).map(|(inside, _)| inside))
        .collect()
}

/// Functions that are in none of the files that the line links to.
fn missing(page: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut missing = Vec::new();
    for line in page.lines() {
        let files = between(line, "](", ")").into_iter();
        let files = files.filter(|path| path.ends_with(".rs"));
        let texts: Vec<_> = files.map(|path| (path, read(path))).collect();
        for (path, text) in &texts {
            if text.is_none() {
                missing.push(format!("{path} is gone"));
            }
        }
        let code = line.split('`').skip(1).step_by(2);
        for function in code.filter_map(|code| code.strip_suffix("()")) {
            let (plain, generic) = (format!("fn {function}("), format!("fn {function}<"));
            let is_in = |text: &String| text.contains(&plain) || text.contains(&generic);
            let is_there = texts
                .iter()
                .any(|(_, text)| text.as_ref().is_some_and(is_in));
            if !texts.is_empty() && !is_there {
                missing.push(format!("{function}() is not in a file of its line: {line}"));
            }
        }
    }
    missing
}

#[test]
fn the_map_names_files_and_functions_that_are_there() {
    let checkout = Checkout::here();
    let read = |path: &str| fs::read_to_string(checkout.root().join(path)).ok();
    let page = read("ARCHITECTURE.md").expect("the map");
    assert!(page.matches("()`").count() > 20, "the walks name functions");
    assert_eq!(missing(&page, read), Vec::<String>::new());
}

#[test]
fn a_file_or_a_function_that_is_gone_is_found() {
    let read = |path: &str| (path == "a.rs").then(|| "fn here() {} fn also<T>() {}".to_owned());
    let page = "| [a](a.rs) | `here()`, `also()` |\n| [a](a.rs) | `gone()` |\n| [b](b.rs) | |\n`not_a_walk()`\n";
    let found = missing(page, read);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("gone()"));
    assert_eq!(found[1], "b.rs is gone");
}
