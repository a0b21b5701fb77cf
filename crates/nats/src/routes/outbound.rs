//! Selects the other nodes that get a message. Each gets it once, however many of its subscriptions match.
//!
//! A queue group with a local member that got the message is done. For each other group, one node is picked
//! uniformly among those with members, regardless of how many members they have.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailrace_nats_wire::Message;
use tailrace_types::NodeId;

use super::wire::Outward;
use super::{RemoteNode, Routes};
use crate::letter::Letter;
use crate::queues::next_random;
use crate::target::Target;
use tailrace_peers::{NatsFrame, NatsUnsent};

/// Most queue groups of one message per node: the number that a frame can contain.
const GROUPS_MAX: usize = u16::MAX as usize;

/// Picks nodes. Keeps its memory from message to message.
#[derive(Debug)]
pub(crate) struct NodePicker {
    nodes: Vec<Share>,
    /// For each match with a queue group that has not been served: the address of the group's name, the
    /// node's index in `nodes`, and the index of the match.
    members: Vec<(usize, usize, usize)>,
    /// The groups that each node serves: the node, and a match of the group.
    picked: Vec<(usize, usize)>,
    random: u64,
}

#[derive(Debug)]
struct Share {
    id: NodeId,
    /// The first match of the node.
    target: usize,
    plain: bool,
}

/// The matches of the lookup, and the queue groups that have been served, by the address of their names.
pub(crate) struct Matches<'a, F> {
    pub(crate) targets: &'a [Arc<Target>],
    pub(crate) is_served: F,
}

impl NodePicker {
    pub(crate) fn new(seed: u64) -> Self {
        // The generator would stay at zero.
        Self { nodes: Vec::new(), members: Vec::new(), picked: Vec::new(), random: seed | 1 }
    }

    /// Sends the message to every node that should get it. Returns their number.
    pub(crate) fn send(
        &mut self,
        routes: &Routes,
        matches: &Matches<'_, impl Fn(usize) -> bool>,
        account: Option<&str>,
        letter: Letter<'_>,
    ) -> usize {
        if letter.at.is_some() && !routes.knows_letters() {
            return 0;
        }
        self.gather(routes, matches);
        self.pick();
        let mut sent = 0;
        let mut rest = &self.picked[..];
        for (at, share) in self.nodes.iter().enumerate() {
            let count = rest.partition_point(|(node, _)| *node == at);
            let (own, others) = rest.split_at(count);
            rest = others;
            if share.plain || !own.is_empty() {
                let queues = own.iter().map(|(_, target)| queue_of(matches.targets, *target));
                let outward = Outward { letter, account, plain: share.plain };
                sent += usize::from(send(routes, &matches.targets[share.target], &outward, queues));
            }
        }
        sent
    }

    fn gather(&mut self, routes: &Routes, matches: &Matches<'_, impl Fn(usize) -> bool>) {
        self.nodes.clear();
        self.members.clear();
        for (index, target) in matches.targets.iter().enumerate() {
            let Target::Node(interest) = &**target else { continue };
            let node = &interest.node;
            if interest.is_over() {
                continue;
            }
            let at = match self.nodes.iter().position(|share| share.id == node.id) {
                Some(at) => at,
                None => {
                    self.nodes.push(Share { id: node.id, target: index, plain: false });
                    self.nodes.len() - 1
                }
            };
            match &interest.queue {
                None => self.nodes[at].plain = true,
                Some(queue) => {
                    let name = Arc::as_ptr(queue).cast::<u8>() as usize;
                    if !(matches.is_served)(name) && routes.is_up(node.id) {
                        self.members.push((name, at, index));
                    }
                }
            }
        }
    }

    /// Picks one node for each group. Afterwards the picks are sorted by node.
    fn pick(&mut self) {
        self.picked.clear();
        self.members.sort_unstable();
        // A node counts once, however many matching subscriptions it has.
        self.members.dedup_by_key(|(name, node, _)| (*name, *node));
        for group in self.members.chunk_by(|one, other| one.0 == other.0) {
            let chosen = (next_random(&mut self.random) % group.len() as u64) as usize;
            let (_, node, target) = group[chosen];
            self.picked.push((node, target));
        }
        self.picked.sort_unstable();
    }
}

fn queue_of(targets: &[Arc<Target>], at: usize) -> &[u8] {
    match &*targets[at] {
        Target::Node(interest) => interest.queue.as_deref().unwrap_or_default(),
        _ => unreachable!("only other nodes are picked"),
    }
}

/// Reports whether the message was queued for the node.
fn send<'q>(
    routes: &Routes,
    target: &Target,
    outward: &Outward<'_>,
    queues: impl ExactSizeIterator<Item = &'q [u8]> + Clone,
) -> bool {
    let Target::Node(interest) = target else { return false };
    let queues = queues.take(GROUPS_MAX);
    let bytes = outward.bytes(queues.clone());
    let queued = match routes.peers() {
        Some(_) if !outward.fits() => Err(NatsUnsent::TooLarge),
        Some(peers) => {
            peers.send_nats(interest.node.id, NatsFrame::Message, bytes, |out| outward.put(out, queues))
        }
        None => Err(NatsUnsent::Down),
    };
    let reason = match queued {
        Ok(()) => {
            count(routes, &interest.node, outward.letter.message);
            return true;
        }
        Err(NatsUnsent::Down) => "down",
        Err(NatsUnsent::QueueFull) => "queue_full",
        Err(NatsUnsent::TooLarge) => "too_large",
    };
    routes.metrics().dropped(reason).inc();
    interest.node.dropped.fetch_add(1, Ordering::Relaxed);
    false
}

fn count(routes: &Routes, node: &RemoteNode, message: &Message<'_>) {
    let bytes = (message.payload.len() + message.headers.map_or(0, <[u8]>::len)) as u64;
    routes.metrics().messages_out.inc();
    routes.metrics().bytes_out.inc_by(bytes);
    node.messages_out.fetch_add(1, Ordering::Relaxed);
    node.bytes_out.fetch_add(bytes, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;

    use bytes::BytesMut;
    use tailrace_config::{BrokerConfig, DynamicConfigs};
    use tailrace_env::task;
    use tailrace_peers::NatsReceiver;

    use super::super::wire::{self, Change};
    use super::super::{Inbound, NodeInterest};
    use super::*;
    use crate::testing::front;

    /// Returns the nodes that would get a message for these targets.
    fn nodes(routes: &Routes, targets: &[Arc<Target>]) -> Vec<i32> {
        let mut picker = NodePicker::new(1);
        picker.gather(routes, &Matches { targets, is_served: |_| false });
        picker.nodes.iter().map(|share| share.id.get()).collect()
    }

    /// The targets of a message that is delivered in turns were looked up earlier.
    #[test]
    fn a_node_without_a_subscriber_by_now_gets_nothing() {
        tailrace_runtime::install();
        let config = BrokerConfig::resolve(&BTreeMap::new(), &DynamicConfigs::default()).unwrap();
        let routes = Routes::new(&config);
        let known = [2, 3].map(|number| routes.node_came(NodeId(number)));
        let forgotten = Arc::new(AtomicBool::new(false));
        let targets =
            [0, 1].map(|at| Arc::new(Target::Node(NodeInterest::new(&known[at], None, &forgotten))));
        let patterns = |at: usize| match &*targets[at] {
            Target::Node(interest) => &interest.patterns,
            _ => unreachable!(),
        };
        let found = || nodes(&routes, &targets);
        assert_eq!(found(), [0; 0]);
        patterns(0).add(1);
        patterns(1).add(2);
        assert_eq!(found(), [2, 3]);
        patterns(0).take_off(1);
        patterns(1).take_off(1);
        assert_eq!(found(), [3]);
    }

    /// The interest is so large that a worker removes it, and that worker is busy.
    #[test]
    fn a_node_that_has_taken_all_back_gets_nothing_until_it_says_more() {
        let front = Arc::new(front());
        let router = front.router();
        let mut inbound = Inbound::new(Arc::clone(&front), front.accounts().routes().node_came(NodeId(2)));
        let mut say = |change, subjects: std::ops::Range<u32>| {
            let mut rows = BytesMut::new();
            subjects.for_each(|n| wire::put_row(&mut rows, change, None, format!("s.{n}").as_bytes(), b"g"));
            inbound.take(NatsFrame::Interest, rows.freeze()).unwrap();
            inbound.settle();
        };
        let found = || {
            let mut targets = Vec::new();
            router.space().matches(b"s.7", &mut targets).unwrap();
            (targets.len(), nodes(front.accounts().routes(), &targets))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let (done, busy) = mpsc::channel::<()>();
        runtime.block_on(async {
            drop(task::spawn_blocking(move || busy.recv()));
            say(Change::Add, 0..2_000);
            assert_eq!(found(), (1, vec![2]));
            say(Change::ForgetAll, 0..1);
            assert_eq!(found(), (1, Vec::new()), "it still exists, but no longer counts");
            say(Change::Add, 7..8);
            assert_eq!(found(), (2, vec![2]), "what comes later counts");
        });
        drop(done);
    }
}
