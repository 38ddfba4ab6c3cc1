//! Collects the program's own metrics, without a clock.
//!
//! Histograms gather their samples until somebody asks for the text. Where nobody ever does, they would grow for ever;
//! a timer that empties them would wake an idle service. So whoever adds the last of so many samples empties them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

/// Samples of all histograms together that may wait to be counted.
const MOST: u32 = 10_000;

pub(super) struct Collector {
    recorder: PrometheusRecorder,
    pile: Arc<Pile>,
}

/// The samples that wait.
struct Pile {
    handle: PrometheusHandle,
    height: AtomicU32,
}

struct Counted {
    histogram: Histogram,
    pile: Arc<Pile>,
}

impl Collector {
    pub(super) fn new() -> (Self, PrometheusHandle) {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let pile = Arc::new(Pile {
            handle: handle.clone(),
            height: AtomicU32::new(0),
        });
        (Self { recorder, pile }, handle)
    }
}

impl HistogramFn for Counted {
    fn record(&self, value: f64) {
        self.histogram.record(value);
        if self.pile.height.fetch_add(1, Relaxed) == MOST {
            self.pile.height.store(0, Relaxed);
            self.pile.handle.run_upkeep();
        }
    }
}

impl Recorder for Collector {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.recorder.describe_counter(key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.recorder.describe_gauge(key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.recorder.describe_histogram(key, unit, description);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.recorder.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.recorder.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Counted {
            histogram: self.recorder.register_histogram(key, metadata),
            pile: Arc::clone(&self.pile),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::with_local_recorder;

    #[test]
    fn whoever_adds_the_last_of_so_many_samples_empties_them_and_none_is_lost() {
        let (collector, handle) = Collector::new();
        let pile = Arc::clone(&collector.pile);
        let all = MOST + 10;
        with_local_recorder(&collector, || {
            for _ in 0..all {
                metrics::histogram!("waits").record(1.0);
            }
        });
        assert!(pile.height.load(Relaxed) < all, "the pile was not emptied");
        let text = handle.render();
        assert!(text.contains(&format!("waits_count {all}\n")), "{text}");
    }
}
