//! The coordinator of groups: who belongs to a group, who reads what, and how far each group has read.
//!
//! One [`GroupCoordinator`] is the state of one partition of `__consumer_offsets`: all groups whose id hashes to it, with
//! their offsets. A group is of one kind at a time. Classic groups (`classic/`) leave the assignment to their leader;
//! consumer groups (`consumer/`, KIP-848) and share groups (`share/`, KIP-932) are assigned here. Offsets (`offsets/`) belong to
//! the id, whatever the kind.
//!
//! Each kind owns its events, answers, timers and state. `event`, `timers`, `group` and `coordinator` put the kinds
//! together as data. Each kind's `step`, and what it calls, stands above that, and `step` above all of them: both are
//! methods of the coordinator.
//!
//! Deliberately not here: protocol error codes ([`GroupError`] tells facts), versions of requests (the shell translates
//! them into abilities), randomness (fresh member ids come in with events).

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
