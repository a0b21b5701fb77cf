//! The API under `$JS.API`: its subjects, the bodies of its requests, and its answers.
//!
//! - [`Request::parse`]: a subject to what is asked for.
//! - [`bodies`]: what requests carry, with their strictness and bounds.
//! - [`Answer`] and the types beside it: answers, which serialise as nats-server writes them.

mod answers;
pub mod bodies;
mod info;
mod page;
mod paging;
mod subject;

pub use answers::{
    AccountInfo, AccountLimits, Answer, ApiStats, Created, MessageAnswer, PauseAnswer, Purged, ResetAnswer,
    SnapshotAnswer, StoredMessage, Success, Unpinned,
};
pub use info::{
    Alternate, ClusterInfo, ConsumerInfo, LostMessages, PeerInfo, PriorityGroupState, SequenceInfo,
    SourceInfo, StreamInfo, StreamInfoAnswer, StreamState,
};
pub use page::Page;
pub use paging::{ConsumerList, ConsumerNames, StreamList, StreamNames};
pub use subject::Request;

pub(crate) use answers::PubAck;

use crate::stream::metadata::API_LEVEL;

/// The header in which a client says which level of the API it needs.
pub const REQUIRED_LEVEL_HEADER: &str = "Nats-Required-Api-Level";

/// Reports whether the level of the API that a client asks for is there. `level` is the value of
/// [`REQUIRED_LEVEL_HEADER`], if there is one.
#[must_use]
pub fn has_level(level: Option<&str>) -> bool {
    level.is_none_or(|level| {
        level.is_empty() || crate::go::parse_int(level).is_some_and(|level| level <= API_LEVEL)
    })
}
