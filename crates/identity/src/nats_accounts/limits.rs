//! Limits of accounts and of connections. `None` is no limit, the -1 of nats-server.

/// Limits of an account. Bytes in all (`data`) are read and ignored, as in nats-server. Leaf nodes and
/// JetStream are not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountLimits {
    /// Maximum number of connections on all nodes together.
    pub connections: Option<u64>,
    /// Maximum number of subscriptions of one connection.
    pub subscriptions: Option<u64>,
    /// Maximum size of a message with its headers, in bytes.
    pub payload_bytes: Option<u64>,
    /// Maximum number of imports.
    pub imports: Option<u64>,
    /// Maximum number of exports.
    pub exports: Option<u64>,
    /// Whether exports may have wildcards.
    pub wildcard_exports: bool,
    /// Whether users must sign the nonce, even if their claim says that they need not.
    pub disallow_bearer: bool,
}

impl Default for AccountLimits {
    /// No limits.
    fn default() -> Self {
        Self {
            connections: None,
            subscriptions: None,
            payload_bytes: None,
            imports: None,
            exports: None,
            wildcard_exports: true,
            disallow_bearer: false,
        }
    }
}

/// Limits of one connection: those of its user and of its account together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Maximum number of subscriptions. 0 closes the connection at the first one.
    pub subscriptions: Option<u64>,
    /// Maximum size of a message with its headers, in bytes.
    pub payload_bytes: Option<u64>,
}

impl ConnectionLimits {
    /// Returns the stricter of each limit.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        let stricter = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self {
            subscriptions: stricter(self.subscriptions, other.subscriptions),
            payload_bytes: stricter(self.payload_bytes, other.payload_bytes),
        }
    }
}

impl AccountLimits {
    /// Returns what they say about each connection.
    pub fn connection(&self) -> ConnectionLimits {
        ConnectionLimits { subscriptions: self.subscriptions, payload_bytes: self.payload_bytes }
    }
}
