//! The options of `/connz`.

use super::query::{BadQuery, LIMIT_DEFAULT, LIMIT_MAX, Query};

/// The options of a request.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) sort: Sort,
    pub(super) auth: bool,
    pub(super) subscriptions: bool,
    pub(super) detail: bool,
    pub(super) offset: usize,
    pub(super) limit: usize,
    pub(super) cid: u64,
    pub(super) user: String,
    pub(super) state: ConnectionState,
    /// Only connections of this account. Empty for all.
    pub(super) account: String,
    /// Whether a filter excludes all connections, because it is for MQTT.
    pub(super) nobody: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    Open,
    Closed,
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Cid,
    Start,
    Subs,
    Pending,
    MsgsTo,
    MsgsFrom,
    BytesTo,
    BytesFrom,
    Last,
    Idle,
    Uptime,
    Rtt,
    Stop,
    Reason,
}

impl Sort {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "" | "cid" => Self::Cid,
            "start" => Self::Start,
            "subs" => Self::Subs,
            "pending" => Self::Pending,
            "msgs_to" => Self::MsgsTo,
            "msgs_from" => Self::MsgsFrom,
            "bytes_to" => Self::BytesTo,
            "bytes_from" => Self::BytesFrom,
            "last" => Self::Last,
            "idle" => Self::Idle,
            "uptime" => Self::Uptime,
            "rtt" => Self::Rtt,
            "stop" => Self::Stop,
            "reason" => Self::Reason,
            _ => return None,
        })
    }
}

impl Options {
    pub(super) fn parse(query: &Query) -> Result<Self, BadQuery> {
        let name = query.text("sort");
        let auth = query.truth("auth")?;
        let detail = query.text("subs").eq_ignore_ascii_case("detail");
        let subscriptions = !detail && query.truth("subs")?;
        let (offset, limit) = (query.count("offset")?, query.count("limit")?);
        let cid = query.cid()?;
        let state = match query.text("state").to_ascii_lowercase().as_str() {
            "" | "open" => ConnectionState::Open,
            "closed" => ConnectionState::Closed,
            "any" | "all" => ConnectionState::Any,
            other => return Err(BadQuery(format!("Error decoding state for {other}"))),
        };
        let sort = Sort::parse(name).ok_or_else(|| BadQuery(format!("invalid sorting option: {name}")))?;
        if matches!(sort, Sort::Stop | Sort::Reason) && state != ConnectionState::Closed {
            return Err(BadQuery(format!("sort by {name} only valid on closed connections")));
        }
        let nobody = !query.text("mqtt_client").is_empty();
        Ok(Self {
            sort,
            auth,
            subscriptions,
            detail,
            offset,
            limit: if limit == 0 { LIMIT_DEFAULT } else { limit.min(LIMIT_MAX) },
            cid,
            user: query.text("user").to_owned(),
            state,
            account: query.text("acc").to_owned(),
            nobody,
        })
    }
}
