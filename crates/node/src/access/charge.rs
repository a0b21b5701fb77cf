//! What clients use of their quotas, as fronts count it.

use std::net::IpAddr;

use tailrace_env::time::Duration;
use tailrace_identity::Principal;
use tailrace_identity::acl::ANONYMOUS;
use tailrace_identity::quota::{Quota, QuotaKey, REQUEST_THROTTLE_MS_MAX, RateWindow};

use super::quotas::Delivery;
use crate::caller::Caller;
use crate::node::Node;

/// Returns the name for which quotas are looked up. `None` for nodes, which have none.
fn user(caller: &Caller) -> Option<&str> {
    match caller.principal() {
        Principal::User(name) => Some(name),
        Principal::Anonymous => Some(ANONYMOUS),
        Principal::Node(_) | Principal::Internal => None,
    }
}

impl Node {
    /// Counts bytes that a client produced or published, and returns how long to hold it up, in milliseconds.
    /// Zero if it keeps to its quota, or has none. `client_id` is empty for a client without one.
    pub fn produced(&self, caller: &Caller, client_id: &str, bytes: u64) -> u32 {
        self.passed(QuotaKey::ProducerByteRate, caller, client_id, bytes)
    }

    /// Decides whether an answer of so many bytes may be sent to a client, and counts it if so.
    pub fn fetched(&self, caller: &Caller, client_id: &str, bytes: u64) -> Delivery {
        let key = QuotaKey::ConsumerByteRate;
        let Some(quota) = self.quota(key, caller, client_id) else {
            return Delivery::Send { throttle_ms: 0 };
        };
        let access = &self.access;
        let delivery = access.quotas.delivered(&quota, bytes as f64, access.now_ms());
        let (Delivery::Send { throttle_ms } | Delivery::Withhold { throttle_ms }) = delivery;
        access.metrics.throttled(key, throttle_ms);
        delivery
    }

    /// Counts bytes of an answer that is sent whatever the quota says, because the client has acquired its
    /// records. Returns how long to hold the client up, in milliseconds.
    pub fn delivered(&self, caller: &Caller, client_id: &str, bytes: u64) -> u32 {
        self.passed(QuotaKey::ConsumerByteRate, caller, client_id, bytes)
    }

    /// Returns how long to hold a client up before it may acquire records, in milliseconds.
    pub fn fetch_throttle_ms(&self, caller: &Caller, client_id: &str) -> u32 {
        self.passed(QuotaKey::ConsumerByteRate, caller, client_id, 0)
    }

    /// Returns how many bytes an answer to a client may have, so that it can be within the quota at all
    /// (KAFKA-9677). `None` without a quota.
    pub fn fetch_bytes_max(&self, caller: &Caller, client_id: &str) -> Option<u64> {
        let quota = self.quota(QuotaKey::ConsumerByteRate, caller, client_id)?;
        // At least 1. Numbers beyond the type's end become its end.
        Some((RateWindow::units_max(quota.limit) as u64).max(1))
    }

    /// Counts time that threads of this node spent on a client (KIP-124), and returns how long to hold it up,
    /// in milliseconds: a second at most, as in Kafka. The limit is in percent of one thread.
    pub fn worked(&self, caller: &Caller, client_id: &str, time: Duration) -> u32 {
        let key = QuotaKey::RequestPercentage;
        let Some(quota) = self.quota(key, caller, client_id) else { return 0 };
        let (access, percent_seconds) = (&self.access, time.as_secs_f64() * 100.0);
        let throttle_ms = access.quotas.passed(key, &quota, percent_seconds, access.now_ms());
        let throttle_ms = throttle_ms.min(REQUEST_THROTTLE_MS_MAX);
        access.metrics.throttled(key, throttle_ms);
        throttle_ms
    }

    /// Reports whether a client's changes of the cluster are limited.
    pub fn limits_mutations(&self, caller: &Caller, client_id: &str) -> bool {
        self.quota(QuotaKey::ControllerMutationRate, caller, client_id).is_some()
    }

    /// Counts partitions that a client creates or deletes (KIP-599), and returns how long to hold it up
    /// afterwards, in milliseconds.
    ///
    /// # Errors
    /// If `is_strict`, earlier changes have used the quota up. Nothing was counted. The client may try again
    /// in so many milliseconds.
    pub fn mutated(
        &self,
        caller: &Caller,
        client_id: &str,
        partitions: u64,
        is_strict: bool,
    ) -> Result<u32, u32> {
        let key = QuotaKey::ControllerMutationRate;
        let Some(quota) = self.quota(key, caller, client_id) else { return Ok(0) };
        let access = &self.access;
        let outcome = access.quotas.mutated(&quota, partitions as f64, is_strict, access.now_ms());
        let (Ok(throttle_ms) | Err(throttle_ms)) = outcome;
        access.metrics.throttled(key, throttle_ms);
        outcome
    }

    /// Reports whether there are quotas at all.
    pub fn has_quotas(&self) -> bool {
        !self.image().access().quotas().is_empty()
    }

    /// Counts a connection from an address (KIP-612).
    ///
    /// # Errors
    /// The address opens connections too fast. Hold this one for so many milliseconds, then close it. It was
    /// not counted.
    pub fn connected(&self, address: IpAddr) -> Result<(), u32> {
        let image = self.image();
        let Some(quotas) = self.access.quotas.table(&image) else { return Ok(()) };
        let Some(limit) = quotas.connection_rate(address) else { return Ok(()) };
        let access = &self.access;
        let outcome = access.quotas.connected(address, limit, access.now_ms());
        access.metrics.throttled(QuotaKey::ConnectionCreationRate, outcome.err().unwrap_or(0));
        outcome
    }

    fn passed(&self, key: QuotaKey, caller: &Caller, client_id: &str, bytes: u64) -> u32 {
        let Some(quota) = self.quota(key, caller, client_id) else { return 0 };
        let access = &self.access;
        let throttle_ms = access.quotas.passed(key, &quota, bytes as f64, access.now_ms());
        access.metrics.throttled(key, throttle_ms);
        throttle_ms
    }

    fn quota<'a>(&self, key: QuotaKey, caller: &'a Caller, client_id: &'a str) -> Option<Quota<'a>> {
        let quotas = self.access.quotas.table(&self.image())?;
        quotas.quota(key, user(caller)?, client_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_no_quotas() {
        let stranger = Caller::client(crate::caller::Door::Kafka, ([127, 0, 0, 1], 9).into());
        assert_eq!(user(&stranger), Some("ANONYMOUS"));
        assert_eq!(user(&stranger.as_user("alice".into())), Some("alice"));
        assert_eq!(user(Caller::internal()), None);
    }
}
