//! When a job runs: pure reckoning, without a clock and without a runtime.

use std::sync::Arc;
use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Zoned};

use super::timestamp::Timestamp;

/// When a job is due.
#[derive(Clone, Debug)]
pub(crate) enum Timetable {
    /// So long after the last time.
    Every(Duration),
    /// At the multiples of this time since 1970: the same moments in every replica.
    Aligned(Duration),
    /// By a cron line, in a time zone.
    Cron(Arc<Cron>, TimeZone),
}

/// What to do about runs whose time has passed while the scheduler did not run: the service was down, the
/// machine suspended, the clock set forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatchUp {
    /// One run for all of them, at once.
    #[default]
    Once,
    /// None: the next run is the next one that is due. A run that is up to ten seconds late is not missed.
    Skip,
    /// A run for each, oldest first, but no more than so many: the latest ones.
    Each(u32),
}

/// A run that late is not missed.
const MISSED_AFTER: Duration = Duration::from_secs(10);

/// What is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Runs to start, oldest first.
    pub(crate) runs: Vec<Timestamp>,
    /// The one after these; none if there will never be another.
    pub(crate) next: Option<Timestamp>,
}

impl Timetable {
    /// Reads a cron line: five fields, or six with seconds first.
    pub(crate) fn parse(line: &str) -> Result<Cron, String> {
        let parser = CronParser::builder().seconds(Seconds::Optional).build();
        parser.parse(line).map_err(|error| {
            format!(
                "`{line}` is not a cron expression ({}): write minute, hour, day of month, month and day of week, as in \
                 `0 6 * * 1-5`",
                error.to_string().trim_end_matches('.')
            )
        })
    }

    /// Finds a time zone by its name.
    pub(crate) fn zone(name: &str) -> Result<TimeZone, String> {
        TimeZone::get(name).map_err(|_| {
            format!("unknown time zone `{name}`: write it like `Europe/Berlin` or `UTC`")
        })
    }

    /// The first moment after this one; none if there is none.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(interval) => Some(after.plus(*interval)),
            Self::Aligned(interval) => Some(floor(after, *interval).plus(*interval)),
            Self::Cron(cron, zone) => {
                let mut found = zoned(after, zone)?;
                loop {
                    found = cron.find_next_occurrence(&found, false).ok()?;
                    if is_real(cron, &found) {
                        return from_zoned(found);
                    }
                }
            }
        }
    }

    /// The last moment that is not after `now`, if `first` is one of them.
    fn latest(&self, first: Timestamp, now: Timestamp) -> Timestamp {
        match self {
            Self::Every(interval) => {
                let beyond = now.since(first).as_nanos() % interval.as_nanos().max(1);
                now.minus(Duration::from_nanos(
                    u64::try_from(beyond).unwrap_or_default(),
                ))
            }
            Self::Aligned(interval) => floor(now, *interval),
            Self::Cron(cron, zone) => zoned(now, zone)
                .and_then(|now| cron.find_previous_occurrence(&now, true).ok())
                .and_then(from_zoned)
                .unwrap_or(first),
        }
        .max(first)
    }

    /// What is due now, if `next` was to be the next run.
    pub(crate) fn due(&self, next: Timestamp, now: Timestamp, catch_up: CatchUp) -> Due {
        if now < next {
            return Due {
                runs: Vec::new(),
                next: Some(next),
            };
        }
        let latest = self.latest(next, now);
        let runs = match catch_up {
            CatchUp::Once => vec![latest],
            CatchUp::Skip if now.since(latest) <= MISSED_AFTER => vec![latest],
            CatchUp::Skip => Vec::new(),
            CatchUp::Each(most) => self.latest_ones(next, latest, most),
        };
        Due {
            runs,
            next: self.next(latest),
        }
    }

    fn latest_ones(&self, first: Timestamp, latest: Timestamp, most: u32) -> Vec<Timestamp> {
        let before = |moment: &Timestamp| Some(self.latest(first, Timestamp(moment.0 - 1)));
        let mut moments: Vec<_> = std::iter::successors(Some(latest), before)
            .take(most as usize)
            .take_while(|moment| *moment > first)
            .collect();
        if moments.len() < most as usize {
            moments.push(first);
        }
        moments.reverse();
        moments
    }
}

/// Whether a moment is on the cron line, or stands for one that a clock springing forward has left out. croner takes every
/// gap for one of an hour, so where it is half an hour, it also finds moments for what came before the gap.
fn is_real(cron: &Cron, found: &Zoned) -> bool {
    if cron.is_time_matching(found).unwrap_or(true) {
        return true;
    }
    let instant = SignedDuration::from_nanos(1);
    let last = (found.timestamp() - instant).to_zoned(found.time_zone().clone());
    let Ok(gap) = last.datetime().checked_add(instant) else {
        return true;
    };
    cron.find_next_occurrence(&gap, true)
        .is_ok_and(|left_out| left_out < found.datetime())
}

fn floor(moment: Timestamp, interval: Duration) -> Timestamp {
    let interval = i64::try_from(interval.as_nanos())
        .unwrap_or(i64::MAX)
        .max(1);
    Timestamp(moment.0 - moment.0.rem_euclid(interval))
}

fn zoned(moment: Timestamp, zone: &TimeZone) -> Option<Zoned> {
    let timestamp = jiff::Timestamp::from_nanosecond(i128::from(moment.0)).ok()?;
    Some(timestamp.to_zoned(zone.clone()))
}

fn from_zoned(time: Zoned) -> Option<Timestamp> {
    i64::try_from(time.timestamp().as_nanosecond())
        .ok()
        .map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let timestamp: jiff::Timestamp = text.parse().expect("a moment");
        from_zoned(timestamp.to_zoned(TimeZone::UTC)).expect("it is in range")
    }

    fn show(moment: Timestamp, zone: &TimeZone) -> String {
        let shown = zoned(moment, zone).expect("it is in range");
        shown.strftime("%d. %H:%M %:z").to_string()
    }

    fn cron(line: &str, zone: &str) -> Timetable {
        let cron = Timetable::parse(line).expect("a cron line");
        Timetable::Cron(Arc::new(cron), Timetable::zone(zone).expect("a zone"))
    }

    /// The next moments after one, as the clock on the wall shows them.
    fn moments(line: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let (timetable, zone) = (cron(line, zone), Timetable::zone(zone).expect("a zone"));
        let next = |moment: &Timestamp| timetable.next(*moment);
        std::iter::successors(timetable.next(at(after)), next)
            .take(count)
            .map(|moment| show(moment, &zone))
            .collect()
    }

    #[test]
    fn when_the_clock_springs_forward_a_daily_run_is_not_lost() {
        // 02:00 becomes 03:00 on the 29th of March 2026: 02:30 is the first moment that there is.
        assert_eq!(
            moments("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2),
            ["29. 03:00 +02:00", "30. 02:30 +02:00"]
        );
        assert_eq!(
            moments("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:10:00Z", 3),
            ["29. 01:30 +01:00", "29. 03:00 +02:00", "29. 03:30 +02:00"]
        );
    }

    #[test]
    fn when_the_clock_falls_back_a_daily_run_comes_once_and_an_interval_goes_on() {
        // 03:00 becomes 02:00 on the 25th of October 2026.
        assert_eq!(
            moments("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2),
            ["25. 02:30 +02:00", "26. 02:30 +01:00"]
        );
        assert_eq!(
            moments("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:10:00Z", 4),
            [
                "25. 02:30 +02:00",
                "25. 02:00 +01:00",
                "25. 02:30 +01:00",
                "25. 03:00 +01:00"
            ]
        );
    }

    #[test]
    fn a_zone_that_changes_by_half_an_hour() {
        let zone = "Australia/Lord_Howe";
        // Forward from 02:00 to 02:30 on the 4th of October 2026, back from 02:00 to 01:30 on the 5th of April.
        assert_eq!(
            moments("15 2 * * *", zone, "2026-10-03T00:00:00Z", 2),
            ["04. 02:30 +11:00", "05. 02:15 +11:00"]
        );
        assert_eq!(
            moments("45 1 * * *", zone, "2026-04-04T00:00:00Z", 2),
            ["05. 01:45 +11:00", "06. 01:45 +10:30"]
        );
        assert_eq!(
            moments("*/15 * * * *", zone, "2026-04-04T14:20:00Z", 5),
            [
                "05. 01:30 +11:00",
                "05. 01:45 +11:00",
                "05. 01:30 +10:30",
                "05. 01:45 +10:30",
                "05. 02:00 +10:30"
            ]
        );
    }

    #[test]
    fn what_was_missed_over_a_change_of_the_clock_is_reckoned_as_it_would_have_come() {
        let lines = [
            ("30 2 * * *", "Europe/Berlin"),
            ("*/30 * * * *", "Europe/Berlin"),
            ("45 1 * * *", "Australia/Lord_Howe"),
            ("*/15 1-2 * * *", "Australia/Lord_Howe"),
            ("0 12 1 * *", "America/New_York"),
        ];
        for (line, zone) in lines {
            let timetable = cron(line, zone);
            for from in [
                "2026-03-28T00:00:00Z",
                "2026-10-02T00:00:00Z",
                "2026-10-24T00:00:00Z",
            ] {
                let (from, now) = (at(from), at(from).plus(Duration::from_secs(3 * 86_400)));
                let first = timetable.next(from).expect("there is a next");
                let forward: Vec<_> =
                    std::iter::successors(Some(first), |moment| timetable.next(*moment))
                        .take_while(|moment| *moment <= now)
                        .collect();
                let due = timetable.due(first, now, CatchUp::Each(1_000));
                assert_eq!(due.runs, forward, "{line} {zone}");
                if let Some(last) = forward.last() {
                    let once = timetable.due(first, now, CatchUp::Once);
                    assert_eq!((once.runs, once.next), (vec![*last], due.next));
                }
            }
        }
    }

    #[test]
    fn each_way_to_catch_up() {
        let minute = Duration::from_secs(60);
        let (first, now) = (
            Timestamp(0),
            Timestamp(0).plus(minute * 5 + Duration::from_secs(30)),
        );
        let minutes =
            |all: &[u32]| -> Vec<_> { all.iter().map(|it| first.plus(minute * *it)).collect() };
        for timetable in [Timetable::Every(minute), Timetable::Aligned(minute)] {
            let due = |catch_up| timetable.due(first, now, catch_up);
            assert_eq!(due(CatchUp::Once).runs, minutes(&[5]));
            assert_eq!(due(CatchUp::Skip).runs, minutes(&[]));
            assert_eq!(due(CatchUp::Each(100)).runs, minutes(&[0, 1, 2, 3, 4, 5]));
            assert_eq!(due(CatchUp::Each(2)).runs, minutes(&[4, 5]));
            assert_eq!(due(CatchUp::Each(0)).runs, minutes(&[]));
            for catch_up in [CatchUp::Once, CatchUp::Skip, CatchUp::Each(9)] {
                assert_eq!(due(catch_up).next, Some(first.plus(minute * 6)));
                let on_time = timetable.due(first, first.plus(MISSED_AFTER), catch_up);
                assert_eq!(on_time.runs, minutes(&[0]), "{catch_up:?}");
                let early = timetable.due(first, Timestamp(-1), catch_up);
                assert_eq!((early.runs, early.next), (vec![], Some(first)));
            }
        }
    }

    #[test]
    fn years_of_absence_cost_no_time() {
        let nanosecond = Timetable::Every(Duration::from_nanos(1));
        let now = at("2026-01-01T00:00:00Z");
        assert_eq!(
            nanosecond
                .due(Timestamp(0), now, CatchUp::Each(3))
                .runs
                .len(),
            3
        );
        let second = cron("* * * * * *", "UTC");
        assert_eq!(second.due(Timestamp(0), now, CatchUp::Once).runs, [now]);
    }

    #[test]
    fn bad_lines_and_zones_are_explained() {
        for line in [
            "",
            "nonsense",
            "* * *",
            "61 * * * *",
            "0 0 * * MOO",
            "* * * * * * * *",
        ] {
            let error = Timetable::parse(line).expect_err(line);
            assert!(error.contains("as in `0 6 * * 1-5`"), "{error}");
        }
        let error = Timetable::zone("Europe/Berlni").expect_err("no such place");
        assert!(
            error.contains("unknown time zone `Europe/Berlni`"),
            "{error}"
        );
        assert_eq!(cron("0 0 30 2 *", "UTC").next(Timestamp(0)), None);
    }
}
