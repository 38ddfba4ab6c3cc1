//! `cargo xtask site`: the pages of `docs/` as a site with a table of contents and a search, made by mdBook.
//!
//! The table of contents is that of `docs/README.md`, and of `docs/design/README.md` below it: a page that is not listed there
//! is an error. Links to files outside of `docs/` lead to GitHub.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use crate::checkout::Checkout;
use crate::command;
use crate::links;
use crate::step::{Failure, Outcome};

const HELP: &str = "\
The pages as a site, made by mdBook.

usage: cargo xtask site

Checks the links of all pages, copies docs/ to target/site/src with a table of contents made from docs/README.md, and has
mdBook build target/site/book. Needs mdBook: `cargo install --locked mdbook`.

exit code: 0 built, 1 a link or a page is wrong or mdBook is missing, 2 usage
";

const GITHUB: &str = "https://github.com/adieu-rs/adieu/blob/main/";

const BOOK: &str = "\
[book]
title = \"adieu\"
description = \"Graceful shutdown that loses no requests.\"
language = \"en\"

[output.html]
git-repository-url = \"https://github.com/adieu-rs/adieu\"

[output.html.playground]
runnable = false

[output.html.search]
use-boolean-and = true
";

pub(crate) fn run(words: &[&str]) -> ExitCode {
    match words {
        [] => match build(&Checkout::here()) {
            Ok(words) => {
                println!("{words}");
                ExitCode::SUCCESS
            }
            Err(failure) => {
                eprintln!("error: {}", failure.why());
                ExitCode::FAILURE
            }
        },
        ["--help" | "-h"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        [unknown, ..] => crate::usage(&format!("`site` has no option `{unknown}`"), "site --help"),
    }
}

fn build(checkout: &Checkout) -> Outcome {
    println!("{}", links::check(checkout)?);
    let site = checkout.root().join("target/site");
    let source = site.join("src");
    let _ = fs::remove_dir_all(&source);
    let pages = copy(&checkout.root().join("docs"), &source, "docs")?;
    let read = |name: &str| fs::read_to_string(source.join(name));
    let summary = summary(&read("README.md")?, &read("design/README.md")?);
    if let Some(page) = pages
        .iter()
        .find(|page| !summary.contains(&format!("({page})")))
    {
        return Err(Failure::new(format!(
            "docs/{page} is not listed: name it in docs/README.md, or in docs/design/README.md"
        )));
    }
    fs::write(source.join("SUMMARY.md"), summary)?;
    fs::write(site.join("book.toml"), BOOK)?;
    let mut mdbook = checkout.program("mdbook");
    command::run(mdbook.arg("build").arg(&site))
        .map_err(|failure| failure.advise("`cargo install --locked mdbook` brings mdBook"))?;
    Ok(format!("{} pages in target/site/book", pages.len()))
}

/// Copies a directory of pages, and gives the names of the pages in it.
fn copy(from: &Path, to: &Path, name: &str) -> Result<Vec<String>, Failure> {
    fs::create_dir_all(to)?;
    let mut pages = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(from)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let file = entry.file_name().to_string_lossy().into_owned();
        let (from, to) = (entry.path(), to.join(&file));
        if entry.file_type()?.is_dir() {
            let below = copy(&from, &to, &format!("{name}/{file}"))?;
            pages.extend(below.into_iter().map(|page| format!("{file}/{page}")));
        } else if file.ends_with(".md") {
            fs::write(to, for_the_site(&fs::read_to_string(from)?, name))?;
            pages.push(file);
        } else {
            fs::copy(from, to)?;
        }
    }
    Ok(pages)
}

/// A page whose links out of `docs/` lead to GitHub.
fn for_the_site(page: &str, directory: &str) -> String {
    let mut pieces = page.split("](");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.push_str("](");
        match piece.split_once(')') {
            Some((target, rest)) if target.starts_with("../") => {
                let path = links::resolved(&Path::new(directory).join(target));
                let path = path.to_string_lossy();
                match path.strip_prefix("docs/") {
                    Some(_) => out.push_str(target),
                    None => out.push_str(&format!("{GITHUB}{path}")),
                }
                out.push(')');
                out.push_str(rest);
            }
            _ => out.push_str(piece),
        }
    }
    out
}

/// mdBook's table of contents.
fn summary(guide: &str, design: &str) -> String {
    let mut out = "# Summary\n\n[The guide](README.md)\n".to_owned();
    for line in guide.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            out.push_str(&format!("\n# {heading}\n\n"));
        }
        let Some((title, page)) = row(line) else {
            continue;
        };
        if page.contains("://") {
            continue;
        }
        out.push_str(&format!("- [{title}]({page})\n"));
        if page == "design/README.md" {
            for (title, page) in design.lines().filter_map(row) {
                out.push_str(&format!("  - [{title}](design/{page})\n"));
            }
        }
    }
    out
}

/// The link in the first cell of a table's row.
fn row(line: &str) -> Option<(&str, &str)> {
    let (title, rest) = line.strip_prefix("| [")?.split_once("](")?;
    let (page, _) = rest.split_once(')')?;
    Some((title, page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_pages_lead_to_github() {
        let page = "[a](b.md) [c](../deploy/x.yaml) [d](../../xtask/y.rs) ![e](img/f.svg)\n";
        let shown = for_the_site(page, "docs");
        assert!(
            shown.starts_with(&format!("[a](b.md) [c]({GITHUB}deploy/x.yaml)")),
            "{shown}"
        );
        assert_eq!(
            for_the_site("[d](../../xtask/y.rs) [g](../glossary.md)", "docs/design"),
            format!("[d]({GITHUB}xtask/y.rs) [g](../glossary.md)")
        );
    }

    /// The first line below the heading is a sentence, and neither another heading nor a table nor code.
    #[test]
    fn every_page_begins_with_what_it_is_for() {
        let docs = Checkout::here().root().join("docs");
        let mut looked_at = 0;
        for directory in [docs.clone(), docs.join("design")] {
            for entry in fs::read_dir(directory).expect("the pages") {
                let path = entry.expect("a page").path();
                if path.extension().is_none_or(|it| it != "md") {
                    continue;
                }
                let name = path.display();
                let text = fs::read_to_string(&path).expect("readable");
                let (heading, rest) = text.split_once("\n\n").unwrap_or_default();
                assert!(heading.starts_with("# "), "{name} has no heading");
                let first = rest.chars().next().unwrap_or_default();
                assert!(
                    first.is_alphabetic() || matches!(first, '`' | '['),
                    "{name} does not begin with what it is for"
                );
                looked_at += 1;
            }
        }
        assert!(looked_at > 40, "{looked_at} pages");
    }

    #[test]
    fn the_guide_lists_every_page() {
        let docs = Checkout::here().root().join("docs");
        let read = |name: &str| fs::read_to_string(docs.join(name)).expect(name);
        let summary = summary(&read("README.md"), &read("design/README.md"));
        for directory in ["", "design/"] {
            for entry in fs::read_dir(docs.join(directory)).expect("the pages") {
                let name = entry.expect("a page").file_name();
                let name = format!("{directory}{}", name.to_string_lossy());
                let listed = summary.contains(&format!("({name})"));
                assert!(
                    listed || !name.ends_with(".md"),
                    "docs/{name} is not listed"
                );
            }
        }
    }
}
