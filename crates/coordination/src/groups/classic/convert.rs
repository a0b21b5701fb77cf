//! Conversion between classic groups and consumer groups: a classic group ends, or starts.

use std::sync::Arc;

use bytes::Bytes;
use tailrace_types::TimestampMs;

use super::member::ClassicMember;
use super::{CONSUMER_PROTOCOL, ClassicGroup};
use crate::coordinator::{Effects, Moment};
use crate::groups::group::Group;
use crate::groups::{ClientIdentity, GroupCoordinator, GroupError, GroupState};

/// An initial member of a classic group.
#[derive(Debug)]
pub(in crate::groups) struct ClassicSeed {
    pub(in crate::groups) member: Arc<str>,
    pub(in crate::groups) instance: Option<Arc<str>>,
    pub(in crate::groups) client: ClientIdentity,
    pub(in crate::groups) rebalance_timeout_ms: i32,
    pub(in crate::groups) session_timeout_ms: i32,
    pub(in crate::groups) protocols: Vec<(Arc<str>, Bytes)>,
    pub(in crate::groups) assignment: Bytes,
}

impl GroupCoordinator {
    /// Removes a classic group. Pending requests of its members are told to join again. Nothing is written.
    pub(in crate::groups) fn close_classic(
        &mut self,
        id: &Arc<str>,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Option<ClassicGroup> {
        let mut turn = self.turn(id, moment, effects)?;
        for member in turn.group.members.keys().cloned().collect::<Vec<_>>() {
            if let Some(token) = turn.group.take_joining(&member) {
                turn.reply_join(token, Err(GroupError::RebalanceInProgress));
            }
            let syncing = turn.group.members.get_mut(&member).and_then(|member| member.syncing.take());
            if let Some(token) = syncing {
                turn.reply_sync(token, Err(GroupError::RebalanceInProgress));
            }
        }
        self.drop_classic_timers(id);
        match self.groups.remove(id) {
            Some(Group::Classic(group)) => Some(group),
            other => {
                if let Some(other) = other {
                    self.groups.insert(Arc::clone(id), other);
                }
                None
            }
        }
    }

    /// Creates a classic group that is already in this generation, writes it, and starts a rebalance.
    pub(in crate::groups) fn open_classic(
        &mut self,
        id: &Arc<str>,
        generation: i32,
        seeds: Vec<ClassicSeed>,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        let mut group = ClassicGroup::new(moment.now);
        group.protocol_type = Some(CONSUMER_PROTOCOL.into());
        group.generation = generation;
        for seed in seeds {
            let member = ClassicMember {
                instance: seed.instance,
                client: seed.client,
                rebalance_timeout_ms: seed.rebalance_timeout_ms,
                session_timeout_ms: seed.session_timeout_ms,
                protocols: seed.protocols,
                assignment: seed.assignment,
                joining: None,
                syncing: None,
                is_new: false,
                alive_until: TimestampMs(i64::MAX),
            };
            group.insert(seed.member, member);
        }
        group.protocol = group.preferred_protocol();
        group.resubscribe();
        group.enter(GroupState::Stable, moment.now);
        self.groups.insert(Arc::clone(id), Group::Classic(group));
        let Some(mut turn) = self.turn(id, moment, effects) else { return };
        turn.write();
        for member in turn.group.members.keys().cloned().collect::<Vec<_>>() {
            turn.keep_alive(&member);
        }
        turn.prepare_rebalance();
    }
}
