//! `/connz`: open and closed connections.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tailrace_env::time::WallTime;

use serde::Serialize;

use super::closed::{Closed, ClosedList};
use super::connection_info::{ConnInfo, describe, subscriptions_of, user_of};
use super::options::{ConnectionState, Options, Sort};
use super::query::{BadQuery, Query};
use super::subscription_info::SubscriptionInfo;
use super::subscriptions::of_clients;
use crate::client::Client;
use crate::front::NatsFront;
use crate::go_time;

/// The page.
#[derive(Debug, Serialize)]
pub(super) struct Connz {
    server_id: String,
    now: String,
    num_connections: usize,
    total: usize,
    offset: usize,
    limit: usize,
    connections: Vec<ConnInfo>,
}

/// A connection to be sorted and listed.
enum Candidate {
    Open(Arc<Client>),
    Closed(Arc<Closed>),
}

/// Answers a query. Blocks for a while if there are many connections, or if their subscriptions are
/// requested.
pub(super) fn page(front: &NatsFront, closed: &ClosedList, query: &Query) -> Result<Connz, BadQuery> {
    let options = Options::parse(query)?;
    let now = WallTime::now();
    let mut found: Vec<Candidate> = Vec::new();
    if !options.nobody && options.state != ConnectionState::Closed {
        found.extend(front.clients().into_iter().map(Candidate::Open));
    }
    if !options.nobody && options.state != ConnectionState::Open {
        found.extend(closed.all().into_iter().map(Candidate::Closed));
    }
    // As in nats-server, the total includes connections that are filtered out below.
    let total = found.len();
    found.retain(|candidate| candidate.passes(&options));
    found.sort_by_cached_key(|candidate| (candidate.key(options.sort, now), candidate.cid()));
    let limit = if options.cid > 0 { 1 } else { options.limit };
    let listed: Vec<Candidate> = found.into_iter().skip(options.offset).take(limit).collect();
    let mut connections: Vec<ConnInfo> =
        listed.iter().map(|candidate| candidate.info(&options, now)).collect();
    if options.subscriptions || options.detail {
        add_subscriptions(front, &listed, &mut connections, options.detail);
    }
    Ok(Connz {
        server_id: front.server_info().server_id.clone(),
        now: go_time::rfc3339(now),
        num_connections: connections.len(),
        total,
        offset: options.offset,
        limit,
        connections,
    })
}

fn add_subscriptions(front: &NatsFront, listed: &[Candidate], connections: &mut [ConnInfo], detail: bool) {
    let open = listed.iter().filter_map(|candidate| match candidate {
        Candidate::Open(client) => Some(client.id),
        Candidate::Closed(_) => None,
    });
    let mut lists: HashMap<u64, Vec<SubscriptionInfo>> = of_clients(front, open);
    for connection in connections {
        let list = lists.remove(&connection.cid).unwrap_or_default();
        if list.is_empty() {
            continue;
        }
        if detail {
            connection.subscriptions_list_detail = Some(list);
        } else {
            connection.subscriptions_list = Some(list.into_iter().map(|info| info.subject).collect());
        }
    }
}

impl Candidate {
    fn cid(&self) -> u64 {
        match self {
            Self::Open(client) => client.id,
            Self::Closed(closed) => closed.info.cid,
        }
    }

    fn passes(&self, options: &Options) -> bool {
        let has_cid = options.cid == 0 || options.cid == self.cid();
        let of_account = options.account.is_empty() || options.account == self.account();
        has_cid
            && of_account
            && (options.user.is_empty() || self.user().as_deref() == Some(options.user.as_str()))
    }

    fn user(&self) -> Option<String> {
        match self {
            Self::Open(client) => user_of(client),
            Self::Closed(closed) => closed.user.clone(),
        }
    }

    fn account(&self) -> &str {
        match self {
            Self::Open(client) => client.account(),
            Self::Closed(closed) => &closed.account,
        }
    }

    /// Returns the sort key. Smaller ones come first.
    fn key(&self, sort: Sort, now: WallTime) -> Key {
        let since = |time: WallTime| now.duration_since(time).as_nanos();
        let most = |number: u64| Key::Number(u128::MAX - u128::from(number));
        let closed = match self {
            Self::Open(_) => None,
            Self::Closed(closed) => Some(&closed.info),
        };
        match (sort, self) {
            (Sort::Cid | Sort::Start, _) => Key::Number(self.cid().into()),
            (Sort::Subs, Self::Open(client)) => most(subscriptions_of(client) as u64),
            (Sort::Pending, Self::Open(client)) => most(client.pending_bytes() as u64),
            (Sort::MsgsTo, Self::Open(client)) => most(client.sent().0),
            (Sort::BytesTo, Self::Open(client)) => most(client.sent().1),
            (Sort::MsgsFrom, Self::Open(client)) => most(client.counts.messages_in.load(Ordering::Relaxed)),
            (Sort::BytesFrom, Self::Open(client)) => most(client.counts.bytes_in.load(Ordering::Relaxed)),
            (Sort::Subs | Sort::Pending, Self::Closed(_)) => most(0),
            (Sort::MsgsTo, _) => most(closed.map_or(0, |info| info.out_msgs)),
            (Sort::BytesTo, _) => most(closed.map_or(0, |info| info.out_bytes)),
            (Sort::MsgsFrom, _) => most(closed.map_or(0, |info| info.in_msgs)),
            (Sort::BytesFrom, _) => most(closed.map_or(0, |info| info.in_bytes)),
            (Sort::Last, _) => Key::Number(since(self.last())),
            (Sort::Idle, _) => Key::Number(u128::MAX - since(self.last())),
            (Sort::Uptime, Self::Open(client)) => Key::Number(since(client.started)),
            (Sort::Uptime, Self::Closed(closed)) => {
                let up = closed.stopped.duration_since(closed.started);
                Key::Number(up.as_nanos())
            }
            (Sort::Rtt, _) => most(self.round_trip_us()),
            (Sort::Stop, Self::Closed(closed)) => Key::Number(u128::MAX - since(closed.stopped)),
            (Sort::Reason, Self::Closed(closed)) => Key::Text(closed.info.reason.clone().unwrap_or_default()),
            (Sort::Stop | Sort::Reason, Self::Open(_)) => Key::Number(0),
        }
    }

    fn last(&self) -> WallTime {
        match self {
            Self::Open(client) => client.last_activity(),
            Self::Closed(closed) => closed.last,
        }
    }

    fn round_trip_us(&self) -> u64 {
        match self {
            Self::Open(client) => client.counts.round_trip_us.load(Ordering::Relaxed),
            Self::Closed(closed) => closed.round_trip_us,
        }
    }

    fn info(&self, options: &Options, now: WallTime) -> ConnInfo {
        let mut info = match self {
            Self::Open(client) => describe(client, now),
            Self::Closed(closed) => closed.info.clone(),
        };
        if let Self::Open(client) = self
            && info.rtt.is_none()
            && !info.lang.is_empty()
        {
            // As in nats-server, the result is shown by the next request for this connection.
            client.measure_round_trip();
        }
        if options.auth {
            info.authorized_user = self.user();
            info.account = info.authorized_user.is_some().then(|| self.account().to_owned());
            info.name_tag = Some(self.account().to_owned());
        }
        info
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(u128),
    Text(String),
}
