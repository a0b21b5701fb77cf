//! The group coordinator: membership, assignments and committed offsets.
//!
//! One [`GroupCoordinator`] is the state of one partition of `__consumer_offsets`: all groups whose id hashes
//! to it, with their offsets. A group is of one kind at a time. In classic groups (`classic/`) the leader
//! assigns partitions. For consumer groups (`consumer/`, KIP-848) and share groups (`share/`, KIP-932) the
//! coordinator does. Offsets (`offsets/`) belong to the group id, whatever the kind.
//!
//! Each kind has its own events, replies, timers and state. `event`, `timers`, `group` and `coordinator`
//! combine the kinds as data. Each kind's `step`, and the functions it calls, build on these, and `step`
//! builds on all of them. All steps are methods of the coordinator.
//!
//! Deliberately not here: protocol error codes ([`GroupError`] states facts), versions of requests (the
//! caller translates them into capabilities), randomness (fresh member ids come in with events).

mod admin;
mod assignors;
mod classic;
mod consumer;
mod coordinator;
mod counts;
mod error;
mod event;
mod group;
mod journal;
mod limits;
mod member;
mod offsets;
mod share;
mod state;
mod step;
mod timers;
mod topics;

pub use assignors::Partitions;
pub use classic::{
    ClassicDescription, ClassicEvent, ClassicMemberDescription, ClassicReply, JoinAbilities, JoinRequest,
    Joined, JoinedMember, LeavingMember, MemberReference, SyncRequest, Synced,
};
pub use consumer::{
    ConsumerDescription, ConsumerEvent, ConsumerHeartbeat, ConsumerMemberDescription, ConsumerReply,
    SeenTopics,
};
pub use coordinator::GroupCoordinator;
pub use counts::GroupCounts;
pub use error::GroupError;
pub use event::{GroupEvent, GroupFilter, GroupReply, GroupSummary, GroupWork};
pub use member::{ClientIdentity, HeartbeatAnswer, NamedBytes};
pub use offsets::{
    CommitPartition, CommitRequest, CommitTopic, CommittedOffset, CommittedTopic, Committer, FetchRequest,
    FetchTopic, FetchedPartition, FetchedTopic, OffsetsEvent, OffsetsReply, TopicPartitions, TopicReference,
};
pub use share::{
    OpenedStates, ShareDescription, ShareEvent, ShareHeartbeat, ShareMemberDescription, ShareReply,
    ShareWork, StateDeletion,
};
pub use state::{GroupKind, GroupState};
pub use topics::NamedPartitions;
