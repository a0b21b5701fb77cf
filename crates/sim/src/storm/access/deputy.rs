//! The rules that the deputy may and may not have created.

use std::collections::BTreeSet;

use tailrace_env::sync::watch;
use tailrace_metadata::AccessImage;

use super::model;
use super::names::DEPUTY;

/// What is known of the deputy's rules.
#[derive(Default)]
pub(super) struct Deputy {
    /// Whether it may certainly create no rules.
    is_barred: watch::Sender<bool>,
    /// Rules that it had no right to create.
    forbidden: BTreeSet<u64>,
    /// Those of them for which it has no answer. They may still be under way.
    unanswered: BTreeSet<u64>,
    /// Rules that it was told exist.
    created: BTreeSet<u64>,
}

impl Deputy {
    pub(super) fn watch(&self) -> watch::Receiver<bool> {
        self.is_barred.subscribe()
    }

    /// Records whether it may certainly create no rules. What it has asked for without an answer may be
    /// decided when it has the right again.
    pub(super) fn bar(&mut self, is_barred: bool) {
        if !is_barred {
            for number in std::mem::take(&mut self.unanswered) {
                self.forbidden.remove(&number);
            }
        }
        self.is_barred.send_replace(is_barred);
    }

    pub(super) fn asks(&mut self, number: u64) {
        if *self.is_barred.borrow() {
            self.forbidden.insert(number);
            self.unanswered.insert(number);
        }
    }

    pub(super) fn was_told(&mut self, number: u64, is_created: bool) {
        self.unanswered.remove(&number);
        if is_created {
            self.created.insert(number);
        } else {
            self.forbidden.insert(number);
        }
    }

    pub(super) fn judge(&self, access: &AccessImage) -> Result<(), String> {
        let has = |number: &u64| access.acls().contains(&model::deputys_rule(*number));
        if let Some(number) = self.forbidden.iter().find(|number| has(number)) {
            return Err(format!("{DEPUTY} had no right to create rule {number}, and it exists"));
        }
        match self.created.iter().find(|number| !has(number)) {
            Some(number) => Err(format!("{DEPUTY} was told that rule {number} exists, and it does not")),
            None => Ok(()),
        }
    }
}
