//! The audit log: logins and refusals, as events of the target `tailrace::audit`. Changes are logged where
//! they are executed (`controller`). No secret ever comes here.
//!
//! A stranger may cause as many events as it likes, so their rate is bounded. The next event that is written
//! says how many were left out.

use std::fmt::Display;

use parking_lot::Mutex;
use tailrace_env::time::Duration;
use tailrace_identity::acl::{Operation, Reason, ResourceKind};
use tailrace_identity::{Idle, RateAccount};

use crate::caller::Caller;

/// Events per second that are written.
const EVENTS_PER_SECOND: f64 = 100.0;

/// Burst of events, in seconds of the rate.
const BURST: Duration = Duration::from_secs(10);

/// A request that the rules do not allow.
pub(super) struct Refusal<'a> {
    pub(super) caller: &'a Caller,
    pub(super) operation: Operation,
    pub(super) kind: ResourceKind,
    pub(super) name: &'a str,
    /// It was carried out all the same.
    pub(super) is_tried: bool,
}

/// Bounds the rate of events.
pub(super) struct Audit(Mutex<Bounds>);

struct Bounds {
    account: RateAccount,
    left_out: u64,
}

impl Default for Audit {
    fn default() -> Self {
        Self(Mutex::new(Bounds { account: RateAccount::new(Idle::PaysForNext), left_out: 0 }))
    }
}

impl Audit {
    /// Returns how many events were left out before this one. `None` if this one is left out, too.
    fn turn(&self, now: Duration) -> Option<u64> {
        let mut bounds = self.0.lock();
        if bounds.account.spend_within(1, EVENTS_PER_SECOND, BURST, now).is_none() {
            bounds.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut bounds.left_out))
    }

    pub(super) fn refused(&self, refusal: &Refusal<'_>, reason: Reason<'_>, now: Duration) {
        let Some(left_out) = self.turn(now) else { return };
        let Refusal { caller, operation, kind, name, is_tried } = refusal;
        let message = if *is_tried { "would be refused by the rules" } else { "refused by the rules" };
        tracing::info!(
            target: "tailrace::audit", %caller, %operation, resource = %kind, name = %name.escape_debug(), %reason, left_out,
            "{message}"
        );
    }

    pub(super) fn login_failed(&self, caller: &Caller, mechanism: &str, reason: &dyn Display, now: Duration) {
        let Some(left_out) = self.turn(now) else { return };
        tracing::info!(target: "tailrace::audit", %caller, mechanism, %reason, left_out, "a login failed");
    }

    pub(super) fn login(&self, caller: &Caller, mechanism: &str, now: Duration) {
        let Some(left_out) = self.turn(now) else { return };
        tracing::info!(target: "tailrace::audit", %caller, mechanism, left_out, "logged in");
    }
}
