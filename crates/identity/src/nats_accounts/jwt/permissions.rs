//! Rules from the permissions of claims.

use super::forms::{Lists, PermissionsForm, ResponseForm};
use crate::rules::{Entries, ResponseLimits, Rules};

/// Maximum number of patterns in one list, also of those that templates produce, as in nats-server.
pub(super) const PATTERNS_MAX: usize = 4_096;

/// Makes rules. `None` if there are no permissions: then those of the account apply, or everything is
/// allowed.
///
/// # Errors
/// Describes what is wrong with an entry.
pub(super) fn rules(form: &PermissionsForm) -> Result<Option<Rules>, String> {
    let PermissionsForm { publish, subscribe, responses } = form;
    if publish.is_empty() && subscribe.is_empty() && responses.is_none() {
        return Ok(None);
    }
    let (publish_allow, publish_deny) = lists("pub", publish, false)?;
    let (subscribe_allow, subscribe_deny) = lists("sub", subscribe, true)?;
    let responses = responses.map(limits);
    let mut rules = Rules { publish_allow, publish_deny, subscribe_allow, subscribe_deny, responses };
    if responses.is_some() {
        // As in nats-server: a user who may reply, and has no publish list, may publish nothing else.
        rules.publish_allow.get_or_insert_default();
    }
    Ok(Some(rules))
}

/// An empty list is no list.
fn lists(place: &str, lists: &Lists, queues: bool) -> Result<(Option<Entries>, Entries), String> {
    let allow = match lists.allow.as_slice() {
        [] => None,
        list => Some(entries(&format!("{place}.allow"), list, queues)?),
    };
    Ok((allow, entries(&format!("{place}.deny"), &lists.deny, queues)?))
}

fn entries(place: &str, texts: &[String], queues: bool) -> Result<Entries, String> {
    let mut entries = Entries::default();
    for text in texts {
        entries.push_up_to(PATTERNS_MAX, text, queues).map_err(|error| format!("{place}: {error}"))?;
    }
    Ok(entries)
}

fn limits(form: ResponseForm) -> ResponseLimits {
    let defaults = ResponseLimits::default();
    let max = match form.max {
        0 => defaults.max,
        max => u32::try_from(max.min(u32::MAX.into())).ok(),
    };
    let expires_ms = match form.ttl {
        0 => defaults.expires_ms,
        // Less than a millisecond is one.
        ttl => u64::try_from(ttl).ok().map(|ttl| (ttl / 1_000_000).max(1)),
    };
    ResponseLimits { max, expires_ms }
}
