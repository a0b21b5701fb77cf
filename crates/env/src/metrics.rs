//! The Prometheus registry in which all parts of a server register their metrics. docs/operations.md lists
//! every metric.

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the time buckets in seconds: 50 us to 30 s, about three to a decade.
const TIME_BUCKETS: [f64; 18] = [
    50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 200e-3, 500e-3, 1.0, 2.0,
    5.0, 10.0, 30.0,
];

/// The reason why something was refused, cut or skipped.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ReasonLabel {
    /// One word out of a fixed set.
    pub reason: &'static str,
}

/// A histogram of times in seconds.
pub fn times() -> Histogram {
    Histogram::new(TIME_BUCKETS)
}

/// All metrics of one server.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { registry: Mutex::new(Registry::with_prefix("tailrace")) }
    }
}

impl Metrics {
    /// Registers the metrics of a part of the server.
    pub fn add(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.registry.lock());
    }

    /// Registers a source of values that are read when Prometheus scrapes.
    pub fn register_collector(&self, collector: Box<dyn Collector>) {
        self.registry.lock().register_collector(collector);
    }

    /// Renders the page for `/metrics`.
    ///
    /// # Errors
    /// None in practice: writing to a string does not fail.
    pub fn page(&self) -> Result<String, std::fmt::Error> {
        let mut page = String::with_capacity(32 * 1024);
        prometheus_client::encoding::text::encode(&mut page, &self.registry.lock())?;
        Ok(page)
    }
}
