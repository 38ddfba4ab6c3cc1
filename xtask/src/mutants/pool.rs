//! Two trials side by side, and a line that says how far they have come.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::trial::Bench;
use crate::step::Failure;

const SIDE_BY_SIDE: usize = 2;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does the work for each of the items, in order. The first failure is given back once the others are done.
pub(super) fn run<T: Sync>(
    what: &str,
    items: &[T],
    work: impl Fn(&Bench, &T) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let progress = Progress::new(what, items.len());
    thread::scope(|scope| {
        for number in 0..SIDE_BY_SIDE {
            let (next, done, failure, progress, work) = (&next, &done, &failure, &progress, &work);
            scope.spawn(move || {
                let bench = match Bench::new(number) {
                    Ok(bench) => bench,
                    Err(error) => return *lock(failure) = Some(error),
                };
                while lock(failure).is_none() {
                    let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        return;
                    };
                    if let Err(error) = work(&bench, item) {
                        *lock(failure) = Some(error);
                    }
                    progress.show(done.fetch_add(1, Ordering::Relaxed) + 1);
                }
            });
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

struct Progress<'a> {
    what: &'a str,
    total: usize,
    begun: Instant,
    last: Mutex<Option<Instant>>,
}

impl<'a> Progress<'a> {
    fn new(what: &'a str, total: usize) -> Self {
        Self {
            what,
            total,
            begun: Instant::now(),
            last: Mutex::new(None),
        }
    }

    /// On a terminal often and on one line, in a log now and then.
    fn show(&self, done: usize) {
        let on_terminal = io::stderr().is_terminal();
        let pause = Duration::from_millis(if on_terminal { 200 } else { 15_000 });
        let mut last = lock(&self.last);
        if done < self.total && last.is_some_and(|at| at.elapsed() < pause) {
            return;
        }
        *last = Some(Instant::now());
        let left = self.total.saturating_sub(done);
        let each = self.begun.elapsed() / u32::try_from(done.max(1)).unwrap_or(u32::MAX);
        let left = each * u32::try_from(left).unwrap_or(u32::MAX);
        let line = format!(
            "{}: {done} of {}, about {} min left",
            self.what,
            self.total,
            left.as_secs().div_ceil(60)
        );
        let mut out = io::stderr().lock();
        let _ = if on_terminal {
            write!(
                out,
                "\r\x1b[K{line}{}",
                if done == self.total { "\n" } else { "" }
            )
        } else {
            writeln!(out, "{line}")
        };
    }
}
