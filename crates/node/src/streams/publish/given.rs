//! What a turn under the partition's lock is given, and what it comes to.

use std::sync::Arc;

use tailrace_types::Offset;

use super::judging::Judging;
use super::repeated::Found;
use super::types::{NotPublished, PublishRequest, Published, PublishedHere};
use crate::partitions::{Awaited, Topic};
use crate::streams::live::LiveStream;
use crate::taps::WantedBy;

/// What a turn is given.
pub(super) struct Given {
    pub(super) judging: Arc<Judging>,
    pub(super) request: Arc<PublishRequest>,
    pub(super) topic: Arc<Topic>,
    pub(super) live: Arc<LiveStream>,
    pub(super) wanted: WantedBy,
    pub(super) now: i64,
    pub(super) decompressed: usize,
    pub(super) ids_max: usize,
    pub(super) is_short: bool,
}

/// How far a request has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Of the first messages.
    pub(super) published: Vec<Published>,
    /// How many of them were stored before, as far as that was looked up.
    pub(super) before: Option<Vec<Option<u64>>>,
    pub(super) stored: i32,
    pub(super) bytes: u64,
    /// Some of it was appended by this attempt.
    pub(super) has_appended: bool,
    pub(super) awaited: Option<Awaited>,
}

impl Progress {
    pub(super) fn done(self) -> PublishedHere {
        let Self { published, stored, bytes, awaited, .. } = self;
        PublishedHere { published, stored, bytes, awaited }
    }

    /// What it says of the whole that a later part has to wait too long. What has a sender may come again:
    /// what is stored of it will be found.
    pub(super) fn late(&self, request: &PublishRequest, reason: &str) -> NotPublished {
        if self.has_appended && request.sender.is_none() {
            NotPublished::Unknown(reason.to_owned())
        } else {
            NotPublished::Again(reason.to_owned())
        }
    }

    /// What the failure of a later part says of the whole.
    pub(super) fn failed(&self, reason: String, is_certain: bool) -> NotPublished {
        if is_certain && !self.has_appended {
            NotPublished::Refused(reason)
        } else {
            NotPublished::Unknown(reason)
        }
    }
}

/// What one turn under the lock has come to.
pub(super) enum Step {
    Done,
    /// The table has to have everything before this offset.
    Settle(Offset),
    /// The table is busy, or its settings are about to change.
    Pause,
    /// The table cannot be locked at once, so this needs a thread that may wait.
    OnThread,
    /// An earlier leader has stored some of it.
    Look(Vec<Found>),
    /// It was answered before.
    Known(Arc<Vec<Published>>, i32),
    Failed(NotPublished),
}

/// The messages of a turn that pass.
#[derive(Default)]
pub(super) struct Passed {
    /// Their places among all messages of the request.
    pub(super) places: Vec<usize>,
    /// Why the turn ends before the last message.
    pub(super) settles: bool,
}
