//! The coordinator's state of one agent.

use super::conversation::Conversation;
use super::messages::Final;
use super::offset::Offset;
use super::placement::Share;
use super::report::ClockReport;
use crate::recorder::Counts;
use crate::report::Machine;

/// One agent; see the module.
pub(super) struct Peer {
    pub(super) address: String,
    pub(super) share: Share,
    pub(super) conversation: Conversation,
    pub(super) clock: Option<Offset>,
    pub(super) machine: Option<Machine>,
    pub(super) counts: Counts,
    pub(super) ended: Option<Box<Final>>,
    pub(super) lost: Option<String>,
    pub(super) report: Option<ClockReport>,
    pub(super) said_goodbye: bool,
}

impl Peer {
    pub(super) fn is_done(&self) -> bool {
        self.ended.is_some() || self.lost.is_some()
    }
}
