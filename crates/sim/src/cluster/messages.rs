//! What nodes and clients say to each other.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tailrace_coordination::coordinator::TransactionalProducer;
use tailrace_coordination::transactions::{TransactionError, TransactionProtocol};
use tailrace_metadata::{Command, RegisterNode};
use tailrace_replication::TransactionMarker;
use tailrace_replication::raft::{ChunkRequest, ReplicaId};
use tailrace_types::{LeaderEpoch, Offset, ProducerId, RaftGroup, TopicPartition};

/// Between nodes; may be lost, doubled and reordered.
#[derive(Clone)]
pub(super) enum Letter {
    Ping,
    Leading(Vec<(RaftGroup, LeaderEpoch)>),
    Raft(RaftGroup, Bytes),
    Ask(RaftGroup, Bytes),
    Chunk(RaftGroup, ChunkRequest, Option<Bytes>),
}

/// A request or its answer; may be lost and come late.
#[derive(Clone)]
pub(super) enum Call {
    Ask(u64, Request),
    Answer(u64, Response),
}

#[derive(Clone, Debug)]
pub(super) enum Request {
    Join(RegisterNode),
    Command(Box<Command>),
    Markers(TransactionMarker, BTreeSet<TopicPartition>),
    /// Are the partitions in the transaction? If `adds`, they become so.
    Put {
        id: String,
        producer: TransactionalProducer,
        partitions: BTreeSet<TopicPartition>,
        adds: bool,
    },
    Metadata,
    ProducerId,
    Produce {
        partition: TopicPartition,
        batch: Bytes,
        transaction: Option<(String, TransactionProtocol)>,
    },
    Fetch {
        partition: TopicPartition,
        from: Offset,
        epoch: Option<LeaderEpoch>,
        committed: bool,
    },
    InitProducer {
        id: String,
    },
    AddPartitions {
        id: String,
        producer: TransactionalProducer,
        partitions: BTreeSet<TopicPartition>,
    },
    End {
        id: String,
        producer: TransactionalProducer,
        committed: bool,
        protocol: TransactionProtocol,
    },
    Commit {
        group: String,
        partition: TopicPartition,
        offset: i64,
        transaction: Option<(String, TransactionalProducer, TransactionProtocol)>,
    },
    Committed {
        group: String,
        partition: TopicPartition,
    },
}

impl Request {
    /// In the classic protocol nothing tells a request of an earlier transaction from one of the present one: what a client has given
    /// up must not arrive any more (docs/guarantees.md).
    pub(super) fn ends_with_its_connection(&self) -> bool {
        match self {
            Self::AddPartitions { .. } => true,
            Self::End { protocol, .. } => *protocol == TransactionProtocol::Classic,
            Self::Produce { transaction: Some((_, protocol)), .. } => {
                *protocol == TransactionProtocol::Classic
            }
            Self::Commit { transaction: Some((_, _, protocol)), .. } => {
                *protocol == TransactionProtocol::Classic
            }
            _ => false,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Response {
    Admitted {
        replica: ReplicaId,
        founders: Vec<ReplicaId>,
    },
    Done,
    /// The command was refused, and nothing has changed.
    Refused(String),
    NotMarked(BTreeSet<TopicPartition>),
    Metadata(Map),
    ProducerId(ProducerId),
    Produced {
        base: Offset,
        epoch: LeaderEpoch,
    },
    Fetched(Fetched),
    Producer(TransactionalProducer),
    /// A group's offset, and in which epoch the coordinator has answered.
    Committed {
        offset: Option<i64>,
        epoch: LeaderEpoch,
    },
    /// The transaction's coordinator says no.
    Transaction(TransactionError),
    /// Somebody else is to be asked, or the same once more.
    NotHere,
    /// The batch does not follow those before, or its producer is fenced off.
    OutOfOrder(String),
    /// It may have happened.
    Unknown,
}

/// Who leads what, as far as one node knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Map {
    pub(super) leaders: BTreeMap<TopicPartition, (u64, LeaderEpoch)>,
    pub(super) replicas: BTreeMap<TopicPartition, Vec<u64>>,
}

#[derive(Clone, Debug)]
pub(super) struct Fetched {
    pub(super) bytes: Bytes,
    /// As the leader; `None` of a follower.
    pub(super) epoch: Option<LeaderEpoch>,
    pub(super) high_watermark: Offset,
    pub(super) last_stable: Offset,
    /// Producer and first offset of aborted transactions.
    pub(super) aborted: Vec<(i64, Offset, Offset)>,
}
