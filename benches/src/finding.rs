//! One line of the table: a number of ours, that of a peer, and the bar to stay under or to reach.

use serde::Serialize;

/// What was measured, written as one line of JSON.
#[must_use = "a finding that is not told is lost"]
#[derive(Debug, Serialize)]
pub struct Finding {
    bench: &'static str,
    case: String,
    unit: Unit,
    ours: f64,
    against: Option<&'static str>,
    peer: Option<f64>,
    /// What the bar is about: ours by itself, divided by the peer's, or less the peer's.
    figure: f64,
    kind: Kind,
    bar: Option<f64>,
    holds: Option<bool>,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Requests.
    Requests,
    /// Bytes.
    Bytes,
    /// Context switches.
    Switches,
    /// Machine instructions.
    Instructions,
    /// So many a second.
    Rate,
    /// Of a hundred.
    Percent,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Value,
    Ratio,
    Difference,
}

impl Finding {
    /// A number that stands by itself.
    pub fn value(bench: &'static str, case: impl Into<String>, unit: Unit, ours: f64) -> Self {
        Self {
            bench,
            case: case.into(),
            unit,
            ours,
            against: None,
            peer: None,
            figure: ours,
            kind: Kind::Value,
            bar: None,
            holds: None,
        }
    }

    /// How many times the peer's number ours is.
    pub fn over(mut self, against: &'static str, peer: f64) -> Self {
        self.figure = self.ours / peer;
        self.kind = Kind::Ratio;
        self.beside(against, peer)
    }

    /// How far ours is above the peer's.
    pub fn above(mut self, against: &'static str, peer: f64) -> Self {
        self.figure = self.ours - peer;
        self.kind = Kind::Difference;
        self.beside(against, peer)
    }

    fn beside(mut self, against: &'static str, peer: f64) -> Self {
        self.against = Some(against);
        self.peer = Some(peer);
        self
    }

    /// What the figure has to stay under.
    pub fn at_most(mut self, bar: f64) -> Self {
        self.bar = Some(bar);
        self.holds = Some(self.figure <= bar);
        self
    }

    /// What the figure has to reach.
    pub fn at_least(mut self, bar: f64) -> Self {
        self.bar = Some(bar);
        self.holds = Some(self.figure >= bar);
        self
    }

    /// Prints it, at once: a program may run for minutes.
    pub fn tell(self) {
        match serde_json::to_string(&self) {
            Ok(line) => println!("{line}"),
            Err(error) => eprintln!("{self:?} cannot be told: {error}"),
        }
    }
}
