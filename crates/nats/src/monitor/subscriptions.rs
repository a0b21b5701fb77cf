//! `/subsz`, and the subscriptions of single connections. Bindings of topics are not listed as subscriptions.
//!
//! Lists are made from a snapshot of the router, which may change meanwhile. The memory that a walk keeps is
//! bounded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tailrace_env::time::WallTime;

use serde::Serialize;
use tailrace_subjects::{Dialect, Pattern, Snapshot};

use super::query::{BadQuery, LIMIT_DEFAULT, LIMIT_MAX, Query};
use super::subscription_info::SubscriptionInfo;
use crate::account::Account;
use crate::front::NatsFront;
use crate::go_time;
use crate::subscription::ClientSubscription;
use crate::target::Target;

/// Most subscriptions in one answer of `/connz`, for all connections together. Each takes some 150 bytes of
/// it.
const OF_CLIENTS_MAX: usize = 65_536;

/// The page.
#[derive(Debug, Serialize)]
pub(super) struct Subsz {
    server_id: String,
    now: String,
    #[serde(flatten)]
    pub(super) statistics: Statistics,
    total: usize,
    offset: usize,
    limit: usize,
    /// As in nats-server, left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subscriptions_list: Vec<SubscriptionInfo>,
}

/// nats-server's statistics of its matcher. Those that tailrace does not keep are 0.
#[derive(Debug, Serialize)]
pub(super) struct Statistics {
    num_subscriptions: u64,
    num_cache: u64,
    num_inserts: u64,
    num_removes: u64,
    num_matches: u64,
    cache_hit_rate: f64,
    max_fanout: u64,
    avg_fanout: f64,
}

pub(super) fn statistics(front: &NatsFront) -> Statistics {
    let metrics = front.metrics();
    let live = u64::try_from(metrics.subscriptions.get()).unwrap_or(0);
    let inserts = metrics.subscriptions_made.get();
    let (lookups, hits) = (metrics.lookups.get(), metrics.cache_hits.get());
    let per_lookup = |count: u64| if lookups == 0 { 0.0 } else { count as f64 / lookups as f64 };
    Statistics {
        num_subscriptions: live,
        num_cache: 0,
        num_inserts: inserts,
        num_removes: inserts.saturating_sub(live),
        num_matches: lookups,
        cache_hit_rate: per_lookup(hits),
        max_fanout: 0,
        avg_fanout: per_lookup(metrics.messages_out.get()),
    }
}

/// Answers a query. Blocks for a while if there are many subscriptions.
pub(super) fn page(front: &NatsFront, query: &Query) -> Result<Subsz, BadQuery> {
    let (listed, test) = (query.truth("subs")?, query.text("test"));
    let (offset, limit) = (query.count("offset")?, query.count("limit")?);
    let limit = if limit == 0 { LIMIT_DEFAULT } else { limit.min(LIMIT_MAX) };
    let accounts = match query.text("acc") {
        "" => front.accounts().all(),
        name => front.accounts().find(name).into_iter().collect(),
    };
    if !test.is_empty() && !is_literal(test) {
        return Err(BadQuery(format!("invalid test subject, must be valid publish subject: {test}")));
    }
    let (total, list) = match (listed, test) {
        (false, _) => (0, Vec::new()),
        (true, "") => all(&accounts, offset, limit),
        (true, test) => matching(&accounts, test, offset, limit),
    };
    Ok(Subsz {
        server_id: front.server_info().server_id.clone(),
        now: go_time::rfc3339(WallTime::now()),
        statistics: statistics(front),
        total,
        offset,
        limit,
        subscriptions_list: list,
    })
}

/// Describes a subscription of an account.
fn described(account: &Account, pattern: &[u8], subscription: &ClientSubscription) -> SubscriptionInfo {
    let name = || Some(account.name().to_string());
    let mut info = SubscriptionInfo::new(pattern, subscription);
    (info.account, info.account_tag) = (name(), name());
    info
}

/// The subscriptions of all of these accounts at a moment.
fn snapshots(accounts: &[Arc<Account>]) -> Vec<(&Arc<Account>, Snapshot<Arc<Target>>)> {
    accounts.iter().map(|account| (account, account.router().space().snapshot())).collect()
}

/// Returns a page of all subscriptions, ordered by connection and subscription. A first walk keeps only the
/// sort keys, 16 bytes each. A second walk describes the subscriptions on the page.
fn all(accounts: &[Arc<Account>], offset: usize, limit: usize) -> (usize, Vec<SubscriptionInfo>) {
    let snapshots = snapshots(accounts);
    let key = |subscription: &ClientSubscription| (subscription.client.id, subscription.number);
    let mut keys = Vec::new();
    for (_, snapshot) in &snapshots {
        snapshot.for_each(|_, target| keys.extend(client_of(target).map(key)));
    }
    keys.sort_unstable();
    let total = keys.len();
    let page = keys.get(offset.min(total)..offset.saturating_add(limit).min(total)).unwrap_or_default();
    let (Some(first), Some(last)) = (page.first(), page.last()) else { return (total, Vec::new()) };
    let mut list = Vec::with_capacity(page.len());
    for (account, snapshot) in &snapshots {
        snapshot.for_each(|pattern, target| {
            let found = client_of(target).filter(|found| (*first..=*last).contains(&key(found)));
            list.extend(found.map(|subscription| described(account, pattern, subscription)));
        });
    }
    list.sort_by_key(|info| (info.cid, info.number));
    (total, list)
}

/// Returns the subscriptions that match a subject. A walk finds their patterns.
fn matching(
    accounts: &[Arc<Account>],
    subject: &str,
    offset: usize,
    limit: usize,
) -> (usize, Vec<SubscriptionInfo>) {
    let snapshots = snapshots(accounts);
    let (mut found, mut of_one): (Vec<Arc<Target>>, _) = (Vec::new(), Vec::new());
    for (_, snapshot) in &snapshots {
        if snapshot.matches(subject.as_bytes(), &mut of_one).is_err() {
            return (0, Vec::new());
        }
        found.append(&mut of_one);
    }
    let mut keys: Vec<(u64, u64)> = found
        .iter()
        .filter_map(|target| client_of(target))
        .map(|subscription| (subscription.client.id, subscription.number))
        .collect();
    keys.sort_unstable();
    let total = keys.len();
    let page: HashSet<(u64, u64)> = keys.into_iter().skip(offset).take(limit).collect();
    let mut list = Vec::with_capacity(page.len());
    for (account, snapshot) in snapshots.iter().filter(|_| !page.is_empty()) {
        snapshot.for_each(|pattern, target| {
            let Some(subscription) = client_of(target) else { return };
            if page.contains(&(subscription.client.id, subscription.number)) {
                list.push(described(account, pattern, subscription));
            }
        });
    }
    list.sort_by_key(|info| (info.cid, info.number));
    (total, list)
}

/// Returns the subscriptions of some connections, in the order in which they were created.
pub(super) fn of_clients(
    front: &NatsFront,
    clients: impl Iterator<Item = u64>,
) -> HashMap<u64, Vec<SubscriptionInfo>> {
    let mut lists: HashMap<u64, Vec<SubscriptionInfo>> = clients.map(|cid| (cid, Vec::new())).collect();
    let mut left = OF_CLIENTS_MAX;
    for account in front.accounts().all() {
        account.router().space().snapshot().for_each(|pattern, target| {
            let Some(subscription) = client_of(target) else { return };
            if let Some(list) = lists.get_mut(&subscription.client.id).filter(|_| left > 0) {
                list.push(SubscriptionInfo::new(pattern, subscription));
                left -= 1;
            }
        });
    }
    lists.values_mut().for_each(|list| list.sort_by_key(|info| info.number));
    lists
}

/// Counts clients' subscriptions that get what is published to the subject, or that are within it if it is a
/// pattern. With a queue group, only those in it. Blocks for a while if there are many.
pub(super) fn count(account: &Account, subject: &str, queue: Option<&[u8]>) -> usize {
    let snapshot = account.router().space().snapshot();
    let counts = |target: &Arc<Target>| {
        client_of(target).is_some_and(|found| queue.is_none_or(|queue| found.queue.as_deref() == Some(queue)))
    };
    if is_literal(subject) {
        let mut found = Vec::new();
        return match snapshot.matches(subject.as_bytes(), &mut found) {
            Ok(_) => found.iter().filter(|target| counts(target)).count(),
            Err(_) => 0,
        };
    }
    let parse = |text: &[u8]| Pattern::parse(Dialect::Nats, text, account.router().limits()).ok();
    let Some(whole) = parse(subject.as_bytes()) else { return 0 };
    let mut count = 0;
    snapshot.for_each(|pattern, target| {
        let is_within = || parse(pattern).is_some_and(|part| whole.covers(&part));
        count += usize::from(counts(target) && is_within());
    });
    count
}

fn client_of(target: &Arc<Target>) -> Option<&ClientSubscription> {
    match &**target {
        Target::Client(subscription) => Some(subscription),
        Target::Topic(_) | Target::Node(_) | Target::Account(_) => None,
    }
}

/// Reports whether messages can be published to the subject.
fn is_literal(subject: &str) -> bool {
    !subject.contains(char::is_whitespace) && subject.split('.').all(|word| !matches!(word, "" | "*" | ">"))
}
