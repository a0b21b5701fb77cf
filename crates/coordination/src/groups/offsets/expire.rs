//! Expires offsets after `offsets.retention.minutes` (KIP-211), and removes groups with their last offset.

use std::collections::BTreeSet;
use std::sync::Arc;

use tailrace_types::TimestampMs;

use super::event::CommittedOffset;
use crate::coordinator::{Effects, Moment};
use crate::groups::GroupCoordinator;
use crate::groups::group::Group;
use crate::groups::state::OffsetsExpire;

const MINUTE_MS: i64 = 60_000;

impl GroupCoordinator {
    pub(in crate::groups) fn schedule_expiry_check(&mut self, moment: &Moment<'_>) {
        let interval =
            i64::try_from(moment.image.broker().offsets_retention_check_interval_ms).unwrap_or(i64::MAX);
        self.expiry_check_at = Some(TimestampMs(moment.now.0.saturating_add(interval)));
    }

    /// Checks everything once. Empty groups without offsets are removed, too.
    pub(in crate::groups) fn expire_offsets(&mut self, moment: &Moment<'_>, effects: &mut Effects<Self>) {
        let ids: BTreeSet<_> = self.groups.keys().chain(self.offsets.group_ids()).cloned().collect();
        for id in &ids {
            self.expire_offsets_of(id, moment, effects);
        }
    }

    fn expire_offsets_of(&mut self, id: &Arc<str>, moment: &Moment<'_>, effects: &mut Effects<Self>) {
        let expired: Vec<_> = match self.groups.get(id) {
            Some(group) => self.expired(id, group, moment),
            None => Vec::new(),
        };
        let count = expired.len() as u64;
        let records = self.forget(id, expired.into_iter());
        self.counts.offset_deletions -= count;
        self.counts.offset_expirations += count;
        effects.append_in_batches(None, records);
        let group = self.groups.get(id);
        // The offsets of a share group are stored elsewhere.
        let vain = group.is_some_and(|group| group.is_empty() && !matches!(group, Group::Share(_)));
        if vain && !self.offsets.has_any(id) && !self.is_awaited(id) {
            self.remove_group(id, effects);
        }
    }

    fn expired(&self, id: &Arc<str>, group: &Group, moment: &Moment<'_>) -> Vec<(Arc<str>, i32)> {
        let retention = i64::from(moment.image.broker().offsets_retention_minutes) * MINUTE_MS;
        let expire = group.offsets_expire();
        let is_old = |offset: &CommittedOffset| {
            let since = match expire {
                OffsetsExpire::Never => return false,
                OffsetsExpire::SinceCommit => offset.committed_at,
                OffsetsExpire::Since(time) => time,
            };
            match offset.expires_at {
                TimestampMs::NONE => moment.now.since(since) >= retention,
                at => moment.now >= at,
            }
        };
        let mut expired = Vec::new();
        for (topic, partitions) in self.offsets.of_group(id) {
            let exists = moment.image.topic(topic).is_some();
            if exists && group.may_read(topic) {
                continue;
            }
            for (index, offset) in partitions {
                if !self.offsets.is_pending(id, topic, index) && (!exists || is_old(offset)) {
                    expired.push((Arc::clone(topic), index));
                }
            }
        }
        expired
    }
}
