//! Membership of share groups (KIP-932).

use std::sync::Arc;

use tailrace_types::TimestampMs;

use super::{GroupCoordinator, GroupState};
use crate::coordinator::{CoordinatorRecord, Effects, Moment, ReplayError, Token};

/// A request of the share protocol.
#[derive(Debug)]
pub enum ShareEvent {}

/// An answer to one.
#[derive(Clone, Debug, PartialEq)]
pub enum ShareReply {}

/// What a share group wants done elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub enum ShareWork {}

/// What a share group waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShareTimer {}

/// A share group.
#[derive(Debug, Default)]
pub(crate) struct ShareGroup {}

impl ShareGroup {
    /// Its state.
    pub(crate) fn state(&self) -> GroupState {
        GroupState::Empty
    }

    pub(crate) fn tombstones(&self, _id: &Arc<str>) -> Vec<CoordinatorRecord> {
        Vec::new()
    }
}

impl GroupCoordinator {
    pub(super) fn step_share(
        &mut self,
        _token: Token,
        _group: &Arc<str>,
        event: ShareEvent,
        _moment: &Moment<'_>,
        _effects: &mut Effects<Self>,
    ) {
        match event {}
    }

    pub(super) fn share_timer(
        &mut self,
        _group: &Arc<str>,
        timer: ShareTimer,
        _moment: &Moment<'_>,
        _effects: &mut Effects<Self>,
    ) {
        match timer {}
    }

    /// An empty share group was deleted; its tombstones are written.
    pub(super) fn share_group_removed(
        &mut self,
        _id: &Arc<str>,
        _group: &ShareGroup,
        _moment: &Moment<'_>,
        _effects: &mut Effects<Self>,
    ) {
    }

    pub(super) fn share_loaded(
        &mut self,
        _group: &Arc<str>,
        _moment: &Moment<'_>,
        _effects: &mut Effects<Self>,
    ) {
    }

    pub(super) fn replay_share(
        &mut self,
        _key: &[u8],
        _value: Option<&[u8]>,
        _timestamp: TimestampMs,
    ) -> Result<(), ReplayError> {
        Err(ReplayError("a record of a share group".to_owned()))
    }
}
