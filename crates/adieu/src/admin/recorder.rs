//! Collects the program's own metrics, without a clock.
//!
//! Histograms gather their samples until `/metrics` is asked for. Where it never is, they would grow forever;
//! a timer that empties them would wake an idle service. So the thread that adds the last of so many samples empties them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

/// Samples of all histograms together that may wait to be counted.
const MAX_SAMPLES: u32 = 10_000;

pub(super) struct Collector {
    recorder: PrometheusRecorder,
    buffer: Arc<SampleBuffer>,
}

/// The samples that wait.
struct SampleBuffer {
    handle: PrometheusHandle,
    count: AtomicU32,
}

struct BufferedHistogram {
    histogram: Histogram,
    buffer: Arc<SampleBuffer>,
}

impl Collector {
    pub(super) fn new() -> (Self, PrometheusHandle) {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let buffer = Arc::new(SampleBuffer {
            handle: handle.clone(),
            count: AtomicU32::new(0),
        });
        (Self { recorder, buffer }, handle)
    }
}

impl HistogramFn for BufferedHistogram {
    fn record(&self, value: f64) {
        self.histogram.record(value);
        if self.buffer.count.fetch_add(1, Relaxed) == MAX_SAMPLES {
            self.buffer.count.store(0, Relaxed);
            self.buffer.handle.run_upkeep();
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
        Histogram::from_arc(Arc::new(BufferedHistogram {
            histogram: self.recorder.register_histogram(key, metadata),
            buffer: Arc::clone(&self.buffer),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::with_local_recorder;

    #[test]
    fn a_full_sample_buffer_is_emptied_and_no_sample_is_lost() {
        let (collector, handle) = Collector::new();
        let buffer = Arc::clone(&collector.buffer);
        let all = MAX_SAMPLES + 10;
        with_local_recorder(&collector, || {
            for _ in 0..all {
                metrics::histogram!("waits").record(1.0);
            }
        });
        assert!(buffer.count.load(Relaxed) < all, "the pile was not emptied");
        let text = handle.render();
        assert!(text.contains(&format!("waits_count {all}\n")), "{text}");
    }
}
