//! Counts of logins, decisions and violated quotas.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tailrace_env::metrics::times;
use tailrace_identity::quota::QuotaKey;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LoginLabels {
    mechanism: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QuotaLabel {
    quota: &'static str,
}

/// Metrics of logins, decisions and quotas.
#[derive(Debug)]
pub(crate) struct AccessMetrics {
    logins: Family<LoginLabels, Counter>,
    decisions: Family<ResultLabel, Counter>,
    token_keys: Family<ResultLabel, Counter>,
    audit_events: Family<ResultLabel, Counter>,
    audit_topic_events: Family<ResultLabel, Counter>,
    pub(super) allowed: Counter,
    pub(super) denied: Counter,
    quota_violations: Family<QuotaLabel, Counter>,
    quota_throttle_seconds: Family<QuotaLabel, Histogram>,
}

impl Default for AccessMetrics {
    fn default() -> Self {
        let decisions = Family::<ResultLabel, Counter>::default();
        let of = |result| decisions.get_or_create(&ResultLabel { result }).clone();
        let (allowed, denied) = (of("allowed"), of("denied"));
        let histogram = times as fn() -> Histogram;
        Self {
            logins: Family::default(),
            decisions,
            token_keys: Family::default(),
            audit_events: Family::default(),
            audit_topic_events: Family::default(),
            allowed,
            denied,
            quota_violations: Family::default(),
            quota_throttle_seconds: Family::new_with_constructor(histogram),
        }
    }
}

impl AccessMetrics {
    pub(super) fn login(&self, mechanism: &'static str, succeeded: bool) {
        let result = if succeeded { "succeeded" } else { "failed" };
        self.logins.get_or_create(&LoginLabels { mechanism, result }).inc();
    }

    /// Counts that the keys of tokens were read again: `used`, `refused` (malformed), or `failed` (a web
    /// server did not answer).
    pub(super) fn token_keys_read(&self, result: &'static str) {
        self.token_keys.get_or_create(&ResultLabel { result }).inc();
    }

    /// Counts an event of the audit log: `written`, `left_out` (too many of them), or `lost` (the file did
    /// not take it, so it is in the server's log).
    pub(super) fn audited(&self, result: &'static str) {
        self.audit_events.get_or_create(&ResultLabel { result }).inc();
    }

    /// Counts events that were meant for the topic of the audit log: `written` or `lost`.
    pub(super) fn audited_in_topic(&self, result: &'static str, events: u64) {
        self.audit_topic_events.get_or_create(&ResultLabel { result }).inc_by(events);
    }

    #[cfg(test)]
    pub(super) fn count_in_topic(&self, result: &'static str) -> u64 {
        self.audit_topic_events.get_or_create(&ResultLabel { result }).get()
    }

    /// Counts a violation of a quota, unless the client is not held up for it.
    pub(super) fn throttled(&self, key: QuotaKey, throttle_ms: u32) {
        if throttle_ms == 0 {
            return;
        }
        let label = QuotaLabel { quota: key.name() };
        self.quota_violations.get_or_create(&label).inc();
        self.quota_throttle_seconds.get_or_create(&label).observe(f64::from(throttle_ms) / 1000.0);
    }

    pub(crate) fn register_into(&self, r: &mut Registry) {
        r.register("logins", "Logins of clients, by mechanism and result", self.logins.clone());
        r.register(
            "authorizer_decisions",
            "Decisions by rules on what clients asked for, by result",
            self.decisions.clone(),
        );
        r.register(
            "token_key_reads",
            "Changed files, or fetches, with the keys of tokens, by result: only if used, the keys change",
            self.token_keys.clone(),
        );
        r.register(
            "audit_events",
            "Events of the audit log, by result: written, left out because there were too many, or lost to the file",
            self.audit_events.clone(),
        );
        r.register(
            "audit_topic_events",
            "Events for the topic of the audit log, by result: written, or lost because it did not take them",
            self.audit_topic_events.clone(),
        );
        r.register(
            "quota_violations",
            "Requests and connections beyond a quota, by quota",
            self.quota_violations.clone(),
        );
        r.register_with_unit(
            "quota_throttle",
            "Times for which clients are held up because of a quota, by quota",
            Unit::Seconds,
            self.quota_throttle_seconds.clone(),
        );
    }
}
