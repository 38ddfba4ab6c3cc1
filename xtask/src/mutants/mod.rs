//! `cargo xtask mutants`: changes the code in small ways and sees whether a test notices.
//!
//! All changes are compiled into one copy of the workspace, each behind a question that the environment answers at run
//! time. So there is one build, and not one for each mutant; and the processes that a test starts are mutated with it.

mod accepted;
mod baseline;
mod build;
mod cfgs;
mod judge;
mod modules;
mod options;
mod page;
mod plan;
mod pool;
mod record;
mod render;
mod returns;
mod scan;
mod site;
mod tree;
mod trial;

use std::collections::BTreeSet;
use std::fs;
use std::process::ExitCode;

use crate::checkout::Checkout;
use crate::step::Failure;

use baseline::Baseline;
use options::{Options, Wish};
use page::Page;
use plan::Plan;
use render::Id;
use tree::Tree;

pub(crate) fn run(words: &[&str]) -> ExitCode {
    let options = match options::parse(words) {
        Ok(Wish::Run(options)) => options,
        Ok(Wish::Help) => {
            print!("{}", options::help());
            return ExitCode::SUCCESS;
        }
        Err(problem) => return crate::usage(&problem, "mutants --help"),
    };
    match act(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("error: {}", failure.why());
            ExitCode::FAILURE
        }
    }
}

fn act(options: &Options) -> Result<bool, Failure> {
    let checkout = Checkout::here();
    let folder = checkout.root().join("target/mutants");
    let accepted = accepted::list()?;
    let tree = Tree::copy(&checkout, folder.join("tree"))?;
    let mut plan = Plan::new(&checkout, &tree.files, BTreeSet::new())?;
    let known = Unviable::read(&folder, &plan);
    if !known.keep_const.is_empty() {
        plan = Plan::new(&checkout, &tree.files, known.keep_const.clone())?;
    }
    plan.leave_out(&known.keys);
    if options.list {
        for (id, mutant) in plan.viable().filter(|(id, _)| options.chooses(&plan, *id)) {
            println!(
                "{id} {}:{} {}: {}: {}",
                mutant.file, mutant.line, mutant.function, mutant.operator, mutant.text
            );
        }
        return Ok(true);
    }
    let programs = build::build(&checkout, &tree, &mut plan, &folder.join("build"))?;
    Unviable::write(&folder, &plan)?;
    println!(
        "{} mutants compile, {} do not",
        plan.mutants.len() - plan.unviable.len(),
        plan.unviable.len()
    );
    let baseline = Baseline::take(&programs, &folder)?;
    for (what, names) in [
        ("fails without a mutant", &baseline.red),
        ("is flaky and not used", &baseline.flaky),
        ("is slow and not used", &baseline.slow),
    ] {
        for name in names {
            println!("{name} {what}");
        }
    }
    let chosen: Vec<Id> = plan
        .viable()
        .map(|(id, _)| id)
        .filter(|id| options.chooses(&plan, *id))
        .collect();
    let fates = judge::judge(
        &plan,
        &baseline,
        &chosen,
        &folder,
        options.budget,
        options.fresh,
    )?;
    let page = Page::new(&plan, &fates, &accepted);
    if options.json {
        println!("{}", page.json());
    } else {
        print!("{}", page.text());
    }
    let stale = if options.is_all() {
        page.stale()
    } else {
        Vec::new()
    };
    for it in &stale {
        println!(
            "accepted.toml has an entry to remove: {} {}: {}: {}",
            it.file, it.function, it.operator, it.text
        );
    }
    let count = page.count(None);
    let is_green = baseline.red.is_empty();
    Ok(count.is_enough() && count.survivors() == 0 && stale.is_empty() && is_green)
}

/// What the compiler refused last time, so that it need not be asked again about files that have not changed.
#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Unviable {
    keep_const: BTreeSet<String>,
    /// Each with the content of its file.
    mutants: Vec<(u64, String)>,
    #[serde(skip)]
    keys: BTreeSet<String>,
}

impl Unviable {
    fn read(folder: &std::path::Path, plan: &Plan) -> Self {
        let mut known: Self = fs::read(folder.join("unviable.json"))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let present: BTreeSet<u64> = plan.digests.values().copied().collect();
        known.keys = known
            .mutants
            .iter()
            .filter(|(digest, _)| present.contains(digest))
            .map(|(_, key)| key.clone())
            .collect();
        known
    }

    fn write(folder: &std::path::Path, plan: &Plan) -> Result<(), Failure> {
        let mutants = plan
            .unviable
            .iter()
            .map(|id| &plan.mutants[*id as usize])
            .map(|it| (plan.digests.get(&it.file).copied().unwrap_or(0), it.key()))
            .collect();
        let known = Self {
            keep_const: plan.keeps_const().clone(),
            mutants,
            keys: BTreeSet::new(),
        };
        let text = serde_json::to_vec(&known).unwrap_or_default();
        fs::write(folder.join("unviable.json"), text)?;
        Ok(())
    }
}
