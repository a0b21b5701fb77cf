//! Dispatch of events, timers and records to the kind of group that they are for.

use std::sync::Arc;

use tailrace_types::TimestampMs;

use super::coordinator::GroupCoordinator;
use super::event::{GroupEvent, GroupReply, GroupWork};
use super::state::GroupKind;
use super::timers::GroupTimer;
use crate::coordinator::{Coordinator, Effects, Moment, ReplayError, Replayed};

impl Coordinator for GroupCoordinator {
    type Event = GroupEvent;
    type Reply = GroupReply;
    type Work = GroupWork;

    fn replay(&mut self, entry: Replayed<'_>) -> Result<(), ReplayError> {
        match entry {
            Replayed::Marker { producer, committed, .. } => {
                self.finish_transaction(producer, committed);
                Ok(())
            }
            Replayed::Record { key, value, producer, .. } => match record_kind(key)? {
                0 | 1 => self.replay_offset(key, value, producer),
                2 => self.replay_classic(key, value),
                3..=8 | 16 => self.replay_consumer(key, value),
                9..=15 => self.replay_share(key, value),
                kind => Err(ReplayError(format!("a record of the unknown kind {kind}"))),
            },
        }
    }

    fn loaded(&mut self, moment: &Moment<'_>) -> Effects<Self> {
        let mut effects = Effects::default();
        self.schedule_expiry_check(moment);
        self.forget_lost_topics(moment, &mut effects);
        let ids: Vec<_> = self.groups.iter().map(|(id, group)| (Arc::clone(id), group.kind())).collect();
        for (id, kind) in ids {
            match kind {
                GroupKind::Classic => self.classic_loaded(&id, moment, &mut effects),
                GroupKind::Consumer => self.consumer_loaded(&id, moment, &mut effects),
                GroupKind::Share => self.share_loaded(&id, moment, &mut effects),
            }
        }
        effects
    }

    fn step(&mut self, event: Self::Event, moment: &Moment<'_>) -> Effects<Self> {
        let mut effects = Effects::default();
        match event {
            GroupEvent::Classic { token, group, event } => {
                self.step_classic(token, &group, event, moment, &mut effects);
            }
            GroupEvent::Consumer { token, group, event } => {
                self.step_consumer(token, &group, event, moment, &mut effects);
            }
            GroupEvent::Share { token, group, event } => {
                self.step_share(token, &group, event, moment, &mut effects);
            }
            GroupEvent::Offsets { token, group, event } => {
                self.step_offsets(token, &group, event, moment, &mut effects);
            }
            GroupEvent::List { token, filter } => {
                effects.replies.push((token, GroupReply::List(self.list(&filter))));
            }
            GroupEvent::Describe { token, groups } => {
                effects.replies.push((token, GroupReply::Describe(self.describe(&groups))));
            }
            GroupEvent::Delete { token, groups } => {
                let reply = self.delete_groups(&groups, &mut effects);
                effects.replies.push((token, GroupReply::Delete(reply)));
            }
        }
        effects
    }

    fn metadata_changed(&mut self, moment: &Moment<'_>) -> Effects<Self> {
        let mut effects = Effects::default();
        self.forget_lost_topics(moment, &mut effects);
        effects
    }

    fn deadline(&self) -> Option<TimestampMs> {
        self.timers.next().into_iter().chain(self.expiry_check_at).min()
    }

    fn tick(&mut self, moment: &Moment<'_>) -> Effects<Self> {
        let mut effects = Effects::default();
        while let Some((group, timer)) = self.timers.take_due(moment.now) {
            match timer {
                GroupTimer::Classic(timer) => self.classic_timer(&group, timer, moment, &mut effects),
                GroupTimer::Consumer(timer) => self.consumer_timer(&group, timer, moment, &mut effects),
                GroupTimer::Share(timer) => self.share_timer(&group, timer, moment, &mut effects),
            }
        }
        if self.expiry_check_at.is_some_and(|at| at <= moment.now) {
            self.expire_offsets(moment, &mut effects);
            self.schedule_expiry_check(moment);
        }
        effects
    }
}

/// Returns the kind of a record: the version of its key.
fn record_kind(key: &[u8]) -> Result<i16, ReplayError> {
    let kind = key.first_chunk::<2>().ok_or_else(|| ReplayError("a key without a version".to_owned()))?;
    Ok(i16::from_be_bytes(*kind))
}
