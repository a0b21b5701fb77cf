//! Consumers: each reads every partition from its beginning, from leaders or followers, all records or the committed ones.

use std::collections::BTreeMap;

use tailrace_types::{LeaderEpoch, Offset, TopicPartition};

use super::client::Client;
use crate::cluster::messages::{Fetched, Request, Response};
use crate::cluster::options::{DATA_TOPIC, OUT_TOPIC};
use crate::history::{History, Seen};

pub(super) async fn run(mut client: Client, number: u64) {
    let committed = number.is_multiple_of(2);
    let follows = number >= 2;
    let mut positions: BTreeMap<TopicPartition, Offset> = BTreeMap::new();
    loop {
        client.sim.sleep(15).await;
        if client.rng.percent(5) {
            client.refresh().await;
        }
        let known: Vec<_> =
            client.partitions(DATA_TOPIC).into_iter().chain(client.partitions(OUT_TOPIC)).collect();
        if known.is_empty() {
            client.refresh().await;
            continue;
        }
        let partition = known[client.rng.below(known.len() as u64) as usize].clone();
        let position = positions.entry(partition.clone()).or_insert(Offset(0));
        *position = poll(&mut client, &partition, *position, committed, follows).await;
    }
}

/// One fetch. Where to go on.
async fn poll(
    client: &mut Client,
    id: &TopicPartition,
    from: Offset,
    committed: bool,
    follows: bool,
) -> Offset {
    let Some((leader, epoch)) = client.leader(id).await else { return from };
    let replicas = client.replicas(id);
    let (node, epoch) = if follows && !replicas.is_empty() && client.rng.percent(70) {
        (replicas[client.rng.below(replicas.len() as u64) as usize], None)
    } else {
        (leader, Some(epoch))
    };
    let asked = Asked { node, id, from, epoch, committed };
    match client.ask(node, asked.request()).await {
        Some(Response::Fetched(fetched)) => take(client, &asked, fetched),
        Some(_) => {
            client.refresh().await;
            from
        }
        None => from,
    }
}

/// What a fetch asks for, and whom.
struct Asked<'a> {
    node: u64,
    id: &'a TopicPartition,
    from: Offset,
    /// None if a follower is asked.
    epoch: Option<LeaderEpoch>,
    /// Only what is committed.
    committed: bool,
}

impl Asked<'_> {
    fn request(&self) -> Request {
        let (partition, from) = (self.id.clone(), self.from);
        Request::Fetch { partition, from, epoch: self.epoch, committed: self.committed }
    }
}

fn take(client: &Client, asked: &Asked<'_>, fetched: Fetched) -> Offset {
    let Asked { node, id, from, epoch, committed } = *asked;
    let mut world = client.sim.world();
    if let (Some(_), Some(epoch)) = (epoch, fetched.epoch) {
        let told = world.history.told(id, epoch, fetched.high_watermark, fetched.last_stable);
        if let Err(anomaly) = told {
            world.failure.get_or_insert(anomaly);
            return from;
        }
    }
    if epoch.is_none() && fetched.epoch.is_none() && !fetched.bytes.is_empty() {
        world.count("a follower answered a fetch");
    }
    let has_rotted = world.nodes.get(&node).is_some_and(|node| node.is_damaged);
    let batches = match History::parse(&fetched.bytes, from) {
        Ok(batches) => batches,
        Err(_) if has_rotted => {
            world.count("a reader noticed damage");
            return from;
        }
        Err(anomaly) => {
            world.failure.get_or_insert(format!("{id} of node {node}: {anomaly}"));
            return from;
        }
    };
    let mut at = from;
    for (base, seen) in batches {
        at = seen.next;
        let result = world.history.saw(id, base, &seen, has_rotted);
        match result {
            Ok(is_new) => {
                if is_new {
                    world.note(b'r', &[base.get() as u64, u64::from(seen.crc)]);
                }
            }
            Err(anomaly) => {
                world.failure.get_or_insert(anomaly);
                return from;
            }
        }
        if committed && is_visible(&seen, base, &fetched) {
            let fits = world.history.saw_committed(id, base, &seen);
            if let Err(anomaly) = fits {
                world.failure.get_or_insert(anomaly);
                return from;
            }
        } else if committed && !seen.is_control {
            world.count("a reader passed over an aborted batch");
        }
    }
    at
}

/// What a client does with the aborted transactions that it is told of.
pub(in crate::cluster) fn is_visible(seen: &Seen, base: Offset, fetched: &Fetched) -> bool {
    let is_aborted = |(producer, first, last): &(i64, Offset, Offset)| {
        *producer == seen.producer && *first <= base && base <= *last
    };
    let hidden = seen.is_transactional && fetched.aborted.iter().any(is_aborted);
    !(seen.is_control || hidden)
}
