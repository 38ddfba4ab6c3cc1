//! `cargo xtask drills`: `adieu drill` on servers of others, as their documentation shows them.
//!
//! The peers are installed once into `target/drills`, from the lists beside this file and the lock file of
//! `fixtures/peers/rust`. Where one fails a check and there is a reproduction without the drill in
//! `fixtures/peers/repro`, that is run too, so that the table blames no server for a mistake of ours.
//!
//! `cargo xtask drills ours` does it with the examples of this project, and there a failure is one.

mod behind;
mod drained;
mod fetch;
mod judge;
mod ours;
mod page;
mod peers;
mod restarts;
mod under_run;

use std::process::ExitCode;

use crate::checkout::Checkout;
use crate::step::Failure;

pub(crate) use drained::drained;
pub(crate) use under_run::under_run;

const HELP: &str = "\
`adieu drill` on servers of others, or on our own.

usage: cargo xtask drills [options] [name…]
       cargo xtask drills [--dev] [--quick] ours
       cargo xtask drills [--dev] [--dry] behind | more | restarts

names; all if none is given:
  uvicorn hypercorn gunicorn aiohttp axum actix-web nginx node

  ours      the examples, as drill.toml says, with --full --repeat 20; it takes an hour or two
  behind    five targets behind simulated and real balancers, for the table in docs/drill-behind.md; six minutes
  more      granian, Go, Java, and Node that closes idle connections, as a table of their own in docs/drills.md
  restarts  servers that go on serving over a restart, and what their clients see of it; six minutes

options:
  --dev     with development builds, which are made faster
  --again   make the table from the reports of the last run, in target/drills/reports
  --quick   only the checks of `adieu drill --quick`
  --dry     leave docs/drills.md alone; so does naming some

Needs python3 and Node; nginx is installed when we may. It takes some minutes for each.

exit code: 0 the table is there, whichever server failed; 1 it could not be made, or one of ours failed; 2 usage
";

#[derive(Debug, Default, PartialEq)]
struct Wish<'a> {
    names: Vec<&'a str>,
    ours: bool,
    behind: bool,
    more: bool,
    restarts: bool,
    quick: bool,
    dev: bool,
    again: bool,
    dry: bool,
    help: bool,
}

pub(crate) fn run(words: &[&str]) -> ExitCode {
    let wish = match understand(words) {
        Ok(wish) => wish,
        Err(problem) => return crate::usage(&problem, "drills --help"),
    };
    if wish.help {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match chore(&Checkout::here(), &wish) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", failure.why());
            ExitCode::FAILURE
        }
    }
}

fn understand<'a>(words: &[&'a str]) -> Result<Wish<'a>, String> {
    let mut wish = Wish::default();
    for word in words.iter().copied() {
        match word {
            "--help" | "-h" => wish.help = true,
            "--quick" => wish.quick = true,
            "--dry" => wish.dry = true,
            "--dev" => wish.dev = true,
            "--again" => wish.again = true,
            "ours" => wish.ours = true,
            "behind" => wish.behind = true,
            "more" => wish.more = true,
            "restarts" => wish.restarts = true,
            name if peers::NAMES.contains(&name) => wish.names.push(name),
            unknown => return Err(format!("`drills` has nothing called `{unknown}`")),
        }
    }
    if wish.ours && (!wish.names.is_empty() || wish.again || wish.dry) {
        return Err("`ours` goes with --dev and --quick, and nothing else".to_owned());
    }
    let alone = [wish.ours, wish.behind, wish.more, wish.restarts];
    let alone = alone.iter().filter(|chore| **chore).count();
    if alone > 1 || alone == 1 && !wish.names.is_empty() {
        return Err("`ours`, `behind`, `more` and `restarts` go with no other name".to_owned());
    }
    if (wish.behind || wish.restarts) && (wish.again || wish.quick) {
        return Err("`behind` and `restarts` go with --dev and --dry only".to_owned());
    }
    Ok(wish)
}

fn chore(checkout: &Checkout, wish: &Wish<'_>) -> Result<(), Failure> {
    if wish.ours {
        return ours::drill(checkout, wish.dev, wish.quick);
    }
    if wish.behind {
        return behind::compare(checkout, wish.dev, wish.dry);
    }
    if wish.restarts {
        return restarts::measure(checkout, wish.dev, wish.dry);
    }
    let (tools, names, chore) = match wish.more {
        true => (
            fetch::without_rust(checkout, wish.dev)?,
            peers::MORE,
            "cargo xtask drills more",
        ),
        false => (
            fetch::tools(checkout, wish.dev)?,
            peers::NAMES,
            "cargo xtask drills",
        ),
    };
    let mut columns = Vec::new();
    for peer in peers::all(checkout, &tools, names)? {
        if !wish.names.is_empty() && !wish.names.contains(&peer.name) {
            continue;
        }
        println!("{} {} …", peer.name, peer.version);
        columns.push(judge::drill(checkout, &tools, peer, wish)?);
    }
    let text = page::render(&columns);
    print!("\n{text}");
    if !wish.dry && wish.names.is_empty() && !wish.quick {
        page::write(checkout, "docs/drills.md", chore, &text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_peer() {
        for name in peers::NAMES {
            assert!(HELP.contains(name), "{name}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let wish = understand(&["--quick", "node"]).expect("it makes sense");
        assert!(wish.quick && wish.names == ["node"]);
        assert!(understand(&["apache"]).is_err());
        assert!(understand(&["ours", "--dev"]).is_ok_and(|wish| wish.ours));
        assert!(understand(&["ours", "node"]).is_err());
        assert!(understand(&["behind", "--dry"]).is_ok_and(|wish| wish.behind));
        assert!(understand(&["behind", "ours"]).is_err());
    }
}
