//! The rules that the deputy may and may not have created.

use std::collections::BTreeSet;

use tailrace_env::sync::watch;
use tailrace_metadata::AccessImage;

use super::model;
use super::names::DEPUTY;

/// Whether the deputy may create rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::storm) enum DeputysRight {
    /// It may, or nobody knows.
    #[default]
    Open,
    /// The same, and the right is about to be taken.
    Ending,
    /// It certainly may not.
    Taken,
}

/// What is known of the deputy's rules.
#[derive(Default)]
pub(super) struct Deputy {
    right: watch::Sender<DeputysRight>,
    /// Rules that it had no right to create.
    forbidden: BTreeSet<u64>,
    /// Those of them for which it has no answer. They may still be under way.
    unanswered: BTreeSet<u64>,
    /// Rules that it was told exist.
    created: BTreeSet<u64>,
}

impl Deputy {
    pub(super) fn watch(&self) -> watch::Receiver<DeputysRight> {
        self.right.subscribe()
    }

    pub(super) fn right(&self) -> DeputysRight {
        *self.right.borrow()
    }

    pub(super) fn right_is(&self, right: DeputysRight) {
        self.right.send_replace(right);
    }

    /// Judges what exists now, before somebody asks to give the right. What the deputy has asked for without
    /// an answer may be decided when it has the right again.
    pub(super) fn right_returns<'a>(
        &mut self,
        images: impl Iterator<Item = &'a AccessImage>,
    ) -> Result<(), String> {
        for access in images {
            if let Some(number) = self.unanswered.iter().find(|number| has(access, **number)) {
                return Err(had_no_right(*number));
            }
        }
        for number in std::mem::take(&mut self.unanswered) {
            self.forbidden.remove(&number);
        }
        self.right_is(DeputysRight::Open);
        Ok(())
    }

    /// Records that the deputy asks for a rule. Returns true if it certainly has no right to create it.
    pub(super) fn asks(&mut self, number: u64) -> bool {
        let is_taken = self.right() == DeputysRight::Taken;
        if is_taken {
            self.forbidden.insert(number);
            self.unanswered.insert(number);
        }
        is_taken
    }

    pub(super) fn was_told(&mut self, number: u64, is_created: bool) -> Result<(), String> {
        self.unanswered.remove(&number);
        if !is_created {
            self.forbidden.insert(number);
            return Ok(());
        }
        self.created.insert(number);
        if self.forbidden.contains(&number) { Err(had_no_right(number)) } else { Ok(()) }
    }

    pub(super) fn judge(&self, access: &AccessImage) -> Result<(), String> {
        if let Some(number) = self.forbidden.iter().find(|number| has(access, **number)) {
            return Err(had_no_right(*number));
        }
        match self.created.iter().find(|number| !has(access, **number)) {
            Some(number) => Err(format!("{DEPUTY} was told that rule {number} exists, and it does not")),
            None => Ok(()),
        }
    }
}

fn has(access: &AccessImage, number: u64) -> bool {
    access.acls().contains(&model::deputys_rule(number))
}

fn had_no_right(number: u64) -> String {
    format!("{DEPUTY} had no right to create rule {number}, and it exists")
}
