//! What a decision must know about a connection: its kind, its address and its proxy. And whether claims
//! allow that.

use std::net::IpAddr;

use super::errors::UserDenied;
use super::forms::{TimeRange, UserBody};
use crate::network::Network;

const DAY_S: i64 = 86_400;

/// The kind of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionKind {
    /// NATS over TCP or TLS.
    Standard,
    /// NATS over WebSocket.
    WebSocket,
    /// Kafka. No claim of nats-server's tools names it unless an administrator writes it.
    Kafka,
}

impl ConnectionKind {
    /// Returns its name in claims and in the users file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "STANDARD",
            Self::WebSocket => "WEBSOCKET",
            Self::Kafka => "KAFKA",
        }
    }

    /// Reports whether a list allows it. Letter case does not matter. An empty list allows everything; one
    /// that names only kinds that do not exist here allows nothing.
    pub(crate) fn is_allowed_by<T: AsRef<str>>(self, list: &[T]) -> bool {
        list.is_empty() || list.iter().any(|name| name.as_ref().eq_ignore_ascii_case(self.name()))
    }
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its kind.
    pub kind: ConnectionKind,
    /// The client's address. `None` if it is unknown: users who are bound to networks are refused then.
    pub address: Option<IpAddr>,
    /// Whether a trusted proxy has signed for it.
    pub has_trusted_proxy: bool,
}

impl UserBody {
    /// Checks a connection, and returns when the allowed part of the day ends, in seconds since 1970.
    pub(super) fn check(&self, connection: Connection, now_s: i64) -> Result<Option<i64>, UserDenied> {
        if !connection.kind.is_allowed_by(&self.allowed_connection_types) {
            return Err(UserDenied::ConnectionKind);
        }
        if self.proxy_required && !connection.has_trusted_proxy {
            return Err(UserDenied::NoProxy);
        }
        if !is_in_networks(&self.src, connection.address) {
            return Err(UserDenied::Address);
        }
        self.check_times(now_s)
    }

    fn check_times(&self, now_s: i64) -> Result<Option<i64>, UserDenied> {
        if self.times.is_empty() {
            return Ok(None);
        }
        if !matches!(self.times_location.as_str(), "" | "UTC" | "Etc/UTC") {
            return Err(UserDenied::Location);
        }
        let ends: Option<Vec<_>> = self.times.iter().map(|range| end(range, now_s)).collect();
        let ends = ends.ok_or(UserDenied::Time)?;
        ends.into_iter().flatten().max().map(Some).ok_or(UserDenied::Time)
    }
}

/// Returns when the range ends that `now_s` is in, if it is. `None` if the range cannot be read. A range
/// whose start is later than its end crosses midnight.
fn end(range: &TimeRange, now_s: i64) -> Option<Option<i64>> {
    let (start, end) = (second_of_day(&range.start)?, second_of_day(&range.end)?);
    let midnight_s = now_s.div_euclid(DAY_S) * DAY_S;
    let second = now_s - midnight_s;
    Some(if start <= end {
        // As in nats-server, the first second is not in the range.
        (start < second && second < end).then_some(midnight_s + end)
    } else if second < end {
        Some(midnight_s + end)
    } else {
        (start < second).then_some(midnight_s + DAY_S + end)
    })
}

/// Reads `HH:MM:SS`. The hour may have one digit, as Go allows.
fn second_of_day(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let number = |text: &str, digits_min: usize, max: i64| {
        let is_number =
            (digits_min..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<i64>().ok()).flatten().filter(|number| *number <= max)
    };
    let (hour, minute, second) = (number(hour, 1, 23)?, number(minute, 2, 59)?, number(second, 2, 59)?);
    parts.next().is_none().then_some(hour * 3600 + minute * 60 + second)
}

/// Reports whether an address is in one of the networks, or there are none. One that cannot be read ends the
/// search, as in nats-server.
fn is_in_networks(networks: &[String], address: Option<IpAddr>) -> bool {
    if networks.is_empty() {
        return true;
    }
    let Some(address) = address else { return false };
    let found = networks.iter().map(|network| is_in(network, address.to_canonical()));
    found.map_while(|found| found).any(|found| found)
}

/// Reports whether a network (`10.0.0.0/8`) has an address. `None` if it cannot be read.
fn is_in(network: &str, address: IpAddr) -> Option<bool> {
    let (base, bits) = network.trim().split_once('/')?;
    let base: IpAddr = base.parse().ok()?;
    let is_number = bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits = if is_number { bits.parse().ok()? } else { return None };
    Some(Network::new(base, bits)?.contains(address))
}
