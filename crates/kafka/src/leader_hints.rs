//! Hints to clients that asked the wrong node: the partition's leader and its address (KIP-951). With them,
//! clients need not look up the metadata first.

use std::collections::BTreeSet;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::{
    fetch_response, produce_response, share_acknowledge_response, share_fetch_response,
};

use crate::context::Context;
use crate::topology::{NodeAddress, nodes};
use tailrace_node::cluster::leaders::leader_of;
use tailrace_node::partitions::Topic;

/// First version of Fetch whose answer can name the leader, and first version with its address.
const FETCH_LEADER_FROM: i16 = 12;
const FETCH_ADDRESS_FROM: i16 = 16;

/// First version of Produce whose answer can do both.
const PRODUCE_FROM: i16 = 10;

/// The leaders that an answer names.
struct Hints<'a> {
    context: &'a Context,
    named: BTreeSet<i32>,
}

impl<'a> Hints<'a> {
    fn new(context: &'a Context) -> Self {
        Self { context, named: BTreeSet::new() }
    }

    /// Returns the leader's id and epoch if the error concerns them and there is a leader.
    fn leader(&mut self, error: i16, topic: Option<&Topic>, partition: i32) -> Option<(i32, i32)> {
        // A client that knows a newer epoch than this node knows the leader better, too, so it gets no hint.
        const TOLD: [ErrorCode; 2] = [ErrorCode::NotLeaderOrFollower, ErrorCode::FencedLeaderEpoch];
        if !TOLD.iter().any(|code| code.code() == error) {
            return None;
        }
        let (node, epoch) = leader_of(self.context.node(), topic?, partition)?;
        self.named.insert(node.get());
        Some((node.get(), epoch.get()))
    }

    /// Returns the addresses of the named leaders.
    fn addresses<T>(self, make: impl Fn(NodeAddress) -> T) -> Vec<T> {
        if self.named.is_empty() {
            return Vec::new();
        }
        let all = nodes(self.context).into_iter();
        all.filter(|node| self.named.contains(&node.id)).map(make).collect()
    }
}

/// Each of the four answers has its own structure for the same fields.
macro_rules! endpoints {
    ($hints:expr, $module:ident) => {
        $hints.addresses(|node| $module::NodeEndpoint {
            node_id: node.id,
            host: node.host,
            port: node.port,
            rack: node.rack,
            ..Default::default()
        })
    };
}

macro_rules! leader {
    ($module:ident, $leader:expr) => {
        $module::LeaderIdAndEpoch { leader_id: $leader.0, leader_epoch: $leader.1, ..Default::default() }
    };
}

pub(crate) fn in_fetch(context: &Context, response: &mut fetch_response::FetchResponse) {
    if context.version() < FETCH_LEADER_FROM {
        return;
    }
    let (mut hints, topics) = (Hints::new(context), context.node().topics());
    for answer in &mut response.responses {
        let topic = if answer.topic.is_empty() {
            topics.by_id(answer.topic_id)
        } else {
            topics.by_name(&answer.topic)
        };
        for data in &mut answer.partitions {
            if let Some(leader) = hints.leader(data.error_code, topic.as_deref(), data.partition_index) {
                data.current_leader = leader!(fetch_response, leader);
            }
        }
    }
    if context.version() >= FETCH_ADDRESS_FROM {
        response.node_endpoints = endpoints!(hints, fetch_response);
    }
}

pub(crate) fn in_produce(context: &Context, response: &mut produce_response::ProduceResponse) {
    if context.version() < PRODUCE_FROM {
        return;
    }
    let (mut hints, topics) = (Hints::new(context), context.node().topics());
    for answer in &mut response.responses {
        let topic =
            if answer.name.is_empty() { topics.by_id(answer.topic_id) } else { topics.by_name(&answer.name) };
        for data in &mut answer.partition_responses {
            if let Some(leader) = hints.leader(data.error_code, topic.as_deref(), data.index) {
                data.current_leader = leader!(produce_response, leader);
            }
        }
    }
    response.node_endpoints = endpoints!(hints, produce_response);
}

pub(crate) fn in_share_fetch(context: &Context, response: &mut share_fetch_response::ShareFetchResponse) {
    let (mut hints, topics) = (Hints::new(context), context.node().topics());
    for answer in &mut response.responses {
        let topic = topics.by_id(answer.topic_id);
        for data in &mut answer.partitions {
            let index = data.partition_index;
            let leader = hints.leader(data.error_code, topic.as_deref(), index);
            let leader =
                leader.or_else(|| hints.leader(data.acknowledge_error_code, topic.as_deref(), index));
            if let Some(leader) = leader {
                data.current_leader = leader!(share_fetch_response, leader);
            }
        }
    }
    response.node_endpoints = endpoints!(hints, share_fetch_response);
}

pub(crate) fn in_share_acknowledge(
    context: &Context,
    response: &mut share_acknowledge_response::ShareAcknowledgeResponse,
) {
    let (mut hints, topics) = (Hints::new(context), context.node().topics());
    for answer in &mut response.responses {
        let topic = topics.by_id(answer.topic_id);
        for data in &mut answer.partitions {
            if let Some(leader) = hints.leader(data.error_code, topic.as_deref(), data.partition_index) {
                data.current_leader = leader!(share_acknowledge_response, leader);
            }
        }
    }
    response.node_endpoints = endpoints!(hints, share_acknowledge_response);
}
