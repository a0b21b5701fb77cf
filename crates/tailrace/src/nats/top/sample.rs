//! Samples of the monitoring port, and the rates between two samples.

use std::collections::HashMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// The fields of `/varz` that are shown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Varz {
    pub(super) server_name: String,
    pub(super) version: String,
    pub(super) uptime: String,
    pub(super) mem: u64,
    pub(super) cpu: f64,
    pub(super) connections: u64,
    pub(super) total_connections: u64,
    pub(super) subscriptions: u64,
    pub(super) slow_consumers: u64,
    pub(super) in_msgs: u64,
    pub(super) in_bytes: u64,
    pub(super) out_msgs: u64,
    pub(super) out_bytes: u64,
}

/// The fields of `/connz` that are used.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Connz {
    pub(super) total: u64,
    pub(super) connections: Vec<ConnInfo>,
}

/// The fields of one connection that are shown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ConnInfo {
    pub(super) cid: u64,
    pub(super) ip: String,
    pub(super) port: u16,
    pub(super) name: String,
    pub(super) lang: String,
    pub(super) version: String,
    pub(super) uptime: String,
    pub(super) idle: String,
    pub(super) rtt: String,
    pub(super) pending_bytes: u64,
    pub(super) subscriptions: u64,
    pub(super) in_msgs: u64,
    pub(super) in_bytes: u64,
    pub(super) out_msgs: u64,
    pub(super) out_bytes: u64,
}

/// One sample.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) varz: Varz,
    pub(super) connz: Connz,
}

/// Messages and bytes per second, to and from the clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Rates {
    pub(super) messages_to: f64,
    pub(super) messages_from: f64,
    pub(super) bytes_to: f64,
    pub(super) bytes_from: f64,
}

impl Rates {
    fn between(then: [u64; 4], now: [u64; 4], seconds: f64) -> Self {
        // Counters restart at 0 when the server does.
        let rate = |at: usize| now[at].saturating_sub(then[at]) as f64 / seconds.max(1e-3);
        Self { messages_to: rate(0), messages_from: rate(1), bytes_to: rate(2), bytes_from: rate(3) }
    }
}

/// A connection with its rates.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) info: ConnInfo,
    pub(super) rates: Rates,
}

/// The changes between two samples.
#[derive(Debug)]
pub(super) struct Interval {
    pub(super) varz: Varz,
    pub(super) rates: Rates,
    pub(super) total: u64,
    pub(super) rows: Vec<Row>,
}

impl Interval {
    /// The interval between two samples. A connection that is new counts from zero.
    pub(super) fn between(then: &Sample, now: Sample) -> Self {
        let seconds = now.at.duration_since(then.at).as_secs_f64();
        let before: HashMap<u64, &ConnInfo> = then.connz.connections.iter().map(|c| (c.cid, c)).collect();
        let row = |info: ConnInfo| {
            let old = before.get(&info.cid).map_or([0; 4], |old| old.counters());
            Row { rates: Rates::between(old, info.counters(), seconds), info }
        };
        let rates = Rates::between(then.varz.counters(), now.varz.counters(), seconds);
        let rows = now.connz.connections.into_iter().map(row).collect();
        Self { varz: now.varz, rates, total: now.connz.total, rows }
    }
}

impl ConnInfo {
    fn counters(&self) -> [u64; 4] {
        [self.out_msgs, self.in_msgs, self.out_bytes, self.in_bytes]
    }
}

impl Varz {
    fn counters(&self) -> [u64; 4] {
        [self.out_msgs, self.in_msgs, self.out_bytes, self.in_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rates_are_differences_by_time() {
        let at = Instant::now();
        let sample = |at, in_msgs, connections| Sample {
            at,
            varz: Varz { in_msgs, ..Varz::default() },
            connz: Connz { total: 1, connections },
        };
        let connection = |cid, out_bytes| ConnInfo { cid, out_bytes, ..ConnInfo::default() };
        let then = sample(at, 100, vec![connection(1, 50), connection(2, 90)]);
        let later = at + Duration::from_secs(2);
        let now = sample(later, 300, vec![connection(1, 250), connection(3, 10)]);
        let interval = Interval::between(&then, now);
        assert_eq!(interval.rates, Rates { messages_from: 100.0, ..Rates::default() });
        let bytes: Vec<f64> = interval.rows.iter().map(|row| row.rates.bytes_to).collect();
        assert_eq!(bytes, [100.0, 5.0]);
        let restarted = sample(later + Duration::from_secs(1), 0, Vec::new());
        let then = sample(later, 300, Vec::new());
        assert_eq!(Interval::between(&then, restarted).rates, Rates::default());
    }
}
