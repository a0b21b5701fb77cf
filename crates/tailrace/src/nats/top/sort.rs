//! Sort orders.

use clap::ValueEnum;

use super::sample::Row;

/// `--sort`: largest first, except for connection ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    /// Messages per second, both ways
    Rate,
    /// Bytes per second, both ways
    ByteRate,
    /// Connection id
    Cid,
    /// Subscriptions
    Subs,
    /// Bytes pending for the client
    Pending,
    /// Messages to the client in total
    MsgsTo,
    /// Messages from the client in total
    MsgsFrom,
    /// Bytes to the client in total
    BytesTo,
    /// Bytes from the client in total
    BytesFrom,
}

impl Sort {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The sort order to request from the server. It decides which connections are within the limit.
    pub(super) fn server_key(self) -> &'static str {
        match self {
            Self::Rate | Self::Cid => "cid",
            Self::ByteRate | Self::BytesFrom => "bytes_from",
            Self::Subs => "subs",
            Self::Pending => "pending",
            Self::MsgsTo => "msgs_to",
            Self::MsgsFrom => "msgs_from",
            Self::BytesTo => "bytes_to",
        }
    }

    pub(super) fn step(self, by: usize) -> Self {
        let all = Self::value_variants();
        let at = all.iter().position(|sort| *sort == self).unwrap_or(0);
        all[(at + by) % all.len()]
    }

    pub(super) fn order(self, rows: &mut [Row]) {
        let key = |row: &Row| {
            let (info, rates) = (&row.info, &row.rates);
            match self {
                Self::Rate => rates.messages_to + rates.messages_from,
                Self::ByteRate => rates.bytes_to + rates.bytes_from,
                Self::Cid => -(info.cid as f64),
                Self::Subs => info.subscriptions as f64,
                Self::Pending => info.pending_bytes as f64,
                Self::MsgsTo => info.out_msgs as f64,
                Self::MsgsFrom => info.in_msgs as f64,
                Self::BytesTo => info.out_bytes as f64,
                Self::BytesFrom => info.in_bytes as f64,
            }
        };
        rows.sort_by(|a, b| key(b).total_cmp(&key(a)).then(a.info.cid.cmp(&b.info.cid)));
    }
}
