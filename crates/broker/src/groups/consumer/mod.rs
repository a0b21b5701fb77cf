//! Consumer groups (KIP-848).

use std::sync::Arc;

use tailrace_types::TimestampMs;

use super::group::OffsetsExpire;
use super::{ClassicEvent, Committer, GroupCoordinator, GroupError, GroupState};
use crate::coordinator::{CoordinatorRecord, Effects, Moment, ReplayError, Token};

/// A request of the consumer protocol.
#[derive(Debug)]
pub enum ConsumerEvent {}

/// An answer to one.
#[derive(Clone, Debug, PartialEq)]
pub enum ConsumerReply {}

/// What a consumer group waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConsumerTimer {}

/// A consumer group.
#[derive(Debug, Default)]
pub(crate) struct ConsumerGroup {}

impl ConsumerGroup {
    /// Its state.
    pub(crate) fn state(&self) -> GroupState {
        GroupState::Empty
    }

    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    pub(crate) fn check_commit(&self, _id: &Arc<str>, _committer: &Committer) -> Result<(), GroupError> {
        Ok(())
    }

    pub(crate) fn check_fetch(
        &self,
        _id: &Arc<str>,
        _member: Option<&str>,
        _epoch: i32,
    ) -> Result<(), GroupError> {
        Ok(())
    }

    pub(crate) fn reads(&self, _topic: &str) -> bool {
        false
    }

    pub(crate) fn offsets_expire(&self) -> OffsetsExpire {
        OffsetsExpire::SinceCommit
    }

    pub(crate) fn tombstones(&self, _id: &Arc<str>) -> Vec<CoordinatorRecord> {
        Vec::new()
    }
}

impl GroupCoordinator {
    pub(super) fn step_consumer(
        &mut self,
        _token: Token,
        _group: &Arc<str>,
        event: ConsumerEvent,
        _moment: &Moment<'_>,
        _effects: &mut Effects<Self>,
    ) {
        match event {}
    }

    /// A request of the classic protocol to a consumer group that has members (KIP-848's upgrade).
    pub(super) fn classic_event_in_consumer_group(
        &mut self,
        _token: Token,
        _group: &Arc<str>,
        _event: ClassicEvent,
        _moment: &Moment<'_>,
        _effects: &mut Effects<Self>,
    ) {
    }

    pub(super) fn consumer_timer(
        &mut self,
        _group: &Arc<str>,
        timer: ConsumerTimer,
        _moment: &Moment<'_>,
        _effects: &mut Effects<Self>,
    ) {
        match timer {}
    }

    pub(super) fn consumer_loaded(
        &mut self,
        _group: &Arc<str>,
        _moment: &Moment<'_>,
        _effects: &mut Effects<Self>,
    ) {
    }

    pub(super) fn replay_consumer(
        &mut self,
        _key: &[u8],
        _value: Option<&[u8]>,
        _timestamp: TimestampMs,
    ) -> Result<(), ReplayError> {
        Err(ReplayError("a record of a consumer group".to_owned()))
    }
}
