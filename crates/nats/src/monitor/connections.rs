//! `/connz`: who is connected, and who was.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::Serialize;

use super::options::{Options, Sort, State};
use super::query::{BadQuery, Query};
use super::subscriptions::{SubscriptionInfo, of_clients};
use super::time;
use crate::NatsFront;
use crate::client::{Client, TransportKind};
use crate::close::CloseReason;

/// Closed connections that are remembered; nats-server remembers 10,000. About half a kilobyte each.
const CLOSED_MAX: usize = 1024;

/// nats-server's account for everybody, where there are no others.
pub(super) const ACCOUNT: &str = "$G";

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

/// One connection, with nats-server's names, in its order.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ConnInfo {
    cid: u64,
    kind: &'static str,
    #[serde(rename = "type")]
    protocol: &'static str,
    ip: String,
    port: u16,
    start: String,
    last_activity: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt: Option<String>,
    uptime: String,
    idle: String,
    pending_bytes: usize,
    in_msgs: u64,
    out_msgs: u64,
    in_bytes: u64,
    out_bytes: u64,
    subscriptions: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    lang: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    authorized_user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subscriptions_list: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subscriptions_list_detail: Option<Vec<SubscriptionInfo>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_tag: Option<&'static str>,
}

/// A connection with what orders it.
enum Candidate {
    Open(Arc<Client>),
    Closed(Arc<Closed>),
}

/// A connection that has ended.
#[derive(Debug)]
pub(super) struct Closed {
    info: ConnInfo,
    user: Option<String>,
    started: SystemTime,
    last: SystemTime,
    stopped: SystemTime,
    round_trip_us: u64,
}

/// The last ones that ended, the oldest first.
#[derive(Debug, Default)]
pub(super) struct ClosedList(Mutex<VecDeque<Arc<Closed>>>);

impl ClosedList {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Closed>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of the end of a connection.
    pub(super) fn add(&self, client: &Client, reason: CloseReason) {
        let now = SystemTime::now();
        let mut info = describe(client, now);
        info.stop = Some(time::rfc3339(now));
        info.reason = Some(reason.to_string());
        let closed = Arc::new(Closed {
            user: user_of(client),
            started: client.started,
            last: client.last_activity(),
            stopped: now,
            round_trip_us: client.counts.round_trip_us.load(Ordering::Relaxed),
            info,
        });
        let mut list = self.lock();
        if list.len() >= CLOSED_MAX {
            list.pop_front();
        }
        list.push_back(closed);
    }

    fn all(&self) -> Vec<Arc<Closed>> {
        self.lock().iter().cloned().collect()
    }
}

/// Answers a query. Blocks for a while when there are many connections, or their subscriptions are wanted.
pub(super) fn page(front: &NatsFront, closed: &ClosedList, query: &Query) -> Result<Connz, BadQuery> {
    let options = Options::parse(query)?;
    let now = SystemTime::now();
    let mut found: Vec<Candidate> = Vec::new();
    if !options.nobody && options.state != State::Closed {
        found.extend(front.clients().into_iter().map(Candidate::Open));
    }
    if !options.nobody && options.state != State::Open {
        found.extend(closed.all().into_iter().map(Candidate::Closed));
    }
    // As nats-server counts: all of that state, whoever is filtered out below.
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
        now: time::rfc3339(now),
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
        has_cid && (options.user.is_empty() || self.user().as_deref() == Some(options.user.as_str()))
    }

    fn user(&self) -> Option<String> {
        match self {
            Self::Open(client) => user_of(client),
            Self::Closed(closed) => closed.user.clone(),
        }
    }

    /// Smaller comes first.
    fn key(&self, sort: Sort, now: SystemTime) -> Key {
        let since = |time: SystemTime| now.duration_since(time).unwrap_or_default().as_nanos();
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
                let up = closed.stopped.duration_since(closed.started).unwrap_or_default();
                Key::Number(up.as_nanos())
            }
            (Sort::Rtt, _) => most(self.round_trip_us()),
            (Sort::Stop, Self::Closed(closed)) => Key::Number(u128::MAX - since(closed.stopped)),
            (Sort::Reason, Self::Closed(closed)) => Key::Text(closed.info.reason.clone().unwrap_or_default()),
            (Sort::Stop | Sort::Reason, Self::Open(_)) => Key::Number(0),
        }
    }

    fn last(&self) -> SystemTime {
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

    fn info(&self, options: &Options, now: SystemTime) -> ConnInfo {
        let mut info = match self {
            Self::Open(client) => describe(client, now),
            Self::Closed(closed) => closed.info.clone(),
        };
        if let Self::Open(client) = self
            && info.rtt.is_none()
            && !info.lang.is_empty()
        {
            // As nats-server: the next look at this connection shows it.
            client.measure_round_trip();
        }
        if options.auth {
            info.authorized_user = self.user();
            info.account = info.authorized_user.is_some().then_some(ACCOUNT);
            info.name_tag = Some(ACCOUNT);
        }
        info
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(u128),
    Text(String),
}

fn user_of(client: &Client) -> Option<String> {
    client.permissions().and_then(|permissions| permissions.principal().name().map(str::to_owned))
}

fn subscriptions_of(client: &Client) -> usize {
    client.counts.subscriptions.load(Ordering::Relaxed)
}

fn describe(client: &Client, now: SystemTime) -> ConnInfo {
    let said = client.said();
    let said = |field: fn(&tailrace_nats_wire::ConnectOptions) -> &String| {
        said.as_deref().map_or_else(String::new, |options| field(options).clone())
    };
    let (out_msgs, out_bytes) = client.sent();
    let round_trip = client.counts.round_trip_us.load(Ordering::Relaxed);
    let last = client.last_activity();
    ConnInfo {
        cid: client.id,
        kind: "Client",
        protocol: match client.transport {
            TransportKind::Plain | TransportKind::Tls => "nats",
            TransportKind::WebSocket => "websocket",
        },
        ip: client.peer.ip().to_canonical().to_string(),
        port: client.peer.port(),
        start: time::rfc3339(client.started),
        last_activity: time::rfc3339(last),
        stop: None,
        reason: None,
        rtt: (round_trip > 0).then(|| time::duration(round_trip)),
        uptime: time::uptime(now.duration_since(client.started).unwrap_or_default()),
        idle: time::uptime(now.duration_since(last).unwrap_or_default()),
        pending_bytes: client.pending_bytes(),
        in_msgs: client.counts.messages_in.load(Ordering::Relaxed),
        out_msgs,
        in_bytes: client.counts.bytes_in.load(Ordering::Relaxed),
        out_bytes,
        subscriptions: subscriptions_of(client),
        name: said(|options| &options.name),
        lang: said(|options| &options.lang),
        version: said(|options| &options.version),
        authorized_user: None,
        account: None,
        subscriptions_list: None,
        subscriptions_list_detail: None,
        name_tag: None,
    }
}
