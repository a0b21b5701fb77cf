//! The settings that say when time has done something, and when that was last looked at.

use tailrace_config::BrokerConfig;
use tailrace_types::TimestampMs;

/// Settings as they were at the last look, and when the last look was.
#[derive(Debug, Default)]
pub(super) struct Timers {
    pub(super) abort_interval_ms: i64,
    pub(super) forget_interval_ms: i64,
    pub(super) expiration_ms: i64,
    /// Longest wait of a request for markers.
    pub(super) wait_ms: i64,
    /// No look for timed-out transactions before this.
    pub(super) next_abort: Option<TimestampMs>,
    /// No look for expired ids before this.
    pub(super) next_forget: Option<TimestampMs>,
}

impl Timers {
    /// Takes over the settings.
    pub(super) fn follow(&mut self, config: &BrokerConfig) {
        self.abort_interval_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms;
        self.forget_interval_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms;
        self.expiration_ms = config.transactional_id_expiration_ms;
        self.wait_ms = config.add_partitions_to_txn_max_timeout_ms;
    }
}
