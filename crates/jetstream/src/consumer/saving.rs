//! What of the state is saved, and when.

use super::durable::{Head, Parts, Recalled};
use super::pending::{Held, Stage};
use super::state::Consumer;

/// What has to be written, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveNeed {
    /// Nothing.
    None,
    /// Something has changed. It may wait for company.
    Some,
    /// Deliveries wait for it.
    Urgent,
}

/// Identifies an encoded state, see [`Consumer::saved`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SaveVersion {
    version: u64,
    reserving: u64,
}

impl Consumer {
    /// Returns whether the state has to be written. What waits in an outbox is the caller's to know.
    pub fn save_need(&self) -> SaveNeed {
        if !self.rules.durable || self.is_closed {
            return SaveNeed::None;
        }
        // Half a step ahead, so that deliveries seldom wait.
        let room = self.saving.reserving - self.consumer_seq.min(self.saving.reserving);
        match () {
            () if self.saving.needs_snapshot || room == 0 => SaveNeed::Urgent,
            () if self.saving.is_dirty || room < self.bounds.reserve_step / 2 => SaveNeed::Some,
            () => SaveNeed::None,
        }
    }

    /// Appends the changes since the last snapshot: they replace the last update. A snapshot instead, if one
    /// is needed; the flag says so. When it is durable, the caller tells [`Consumer::saved`], and sends what
    /// the calls before this one have left in `Outbox::after_save`. If it fails, the caller drops the
    /// consumer and loads it again, or encodes a snapshot and writes that.
    pub fn encode_update(&mut self, bytes: &mut Vec<u8>) -> (SaveVersion, IsSnapshot) {
        if self.saving.needs_snapshot {
            return (self.encode_snapshot(bytes), IsSnapshot(true));
        }
        self.reserve();
        let given_up = self.given_up_changed.then(|| self.given_up.iter().copied());
        let parts = Parts {
            snapshot: self.saving.snapshot,
            head: self.head(),
            ranges: self.settled.iter_new(),
            counts: self.pending.iter_new().filter(|held| self.is_counted(held)).map(recalled_of),
            given_up,
            is_snapshot: false,
        };
        parts.encode(bytes);
        (self.encoded(), IsSnapshot(false))
    }

    /// Appends the whole state. It replaces the last snapshot and its update. To be called when updates have
    /// grown long.
    pub fn encode_snapshot(&mut self, bytes: &mut Vec<u8>) -> SaveVersion {
        self.reserve();
        self.saving.snapshot += 1;
        let held: Vec<_> =
            self.pending.iter().filter(|held| self.is_counted(held)).map(recalled_of).collect();
        let ahead = self.recalled.iter().map(|(seq, recalled)| (*seq, *recalled));
        let parts = Parts {
            snapshot: self.saving.snapshot,
            head: self.head(),
            ranges: self.settled.iter(),
            // Pending messages are at or below the position, the others above.
            counts: held.into_iter().chain(ahead),
            given_up: Some(self.given_up.iter().copied()),
            is_snapshot: true,
        };
        parts.encode(bytes);
        self.settled.mark_old();
        self.pending.mark_old();
        self.given_up_changed = false;
        self.saving.needs_snapshot = false;
        self.encoded()
    }

    /// Takes in that an encoded state is durable.
    pub fn saved(&mut self, version: SaveVersion) {
        if version.version > self.saving.void_through {
            self.saving.reserved = self.saving.reserved.max(version.reserving);
        }
    }

    fn encoded(&mut self) -> SaveVersion {
        self.saving.version += 1;
        self.saving.is_dirty = false;
        SaveVersion { version: self.saving.version, reserving: self.saving.reserving }
    }

    fn reserve(&mut self) {
        let step = self.bounds.reserve_step.max(2);
        if self.is_closed {
            // No delivery follows: the successor may continue right behind.
            self.saving.reserving = self.consumer_seq;
        } else if self.saving.reserving.saturating_sub(self.consumer_seq) <= step / 2 {
            self.saving.reserving = self.consumer_seq.saturating_add(step);
        }
    }

    fn head(&self) -> Head {
        Head {
            settled_through: self.settled_through(),
            floor: self.floor,
            reserved: self.saving.reserving,
            cut: self.cut,
        }
    }

    /// Only counts that matter are stored.
    fn is_counted(&self, held: &Held) -> bool {
        self.rules.max_deliver > 0 || held.deliveries > 1 || held.stage == Stage::Delayed
    }

    /// Returns whether one more delivery may take a number.
    pub(super) fn may_number(&self) -> bool {
        !self.rules.durable || self.consumer_seq < self.saving.reserved
    }
}

/// True if the encoded bytes are a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsSnapshot(pub bool);

fn recalled_of(held: Held) -> (u64, Recalled) {
    let not_before_ms = if held.stage == Stage::Delayed { held.deadline_ms } else { 0 };
    (held.seq, Recalled { deliveries: held.deliveries, not_before_ms })
}
