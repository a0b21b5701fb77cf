//! Permissions in a users file, and what is wrong with a value of it.

use serde::Deserialize;
use toml::Spanned;

use crate::rules::{Entries, ResponseLimits, Rules};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PermissionsTable {
    pub(super) publish: Option<Spanned<Lists>>,
    pub(super) subscribe: Option<Spanned<Lists>>,
    pub(super) allow_responses: Option<Spanned<Responses>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lists {
    allow: Option<Spanned<Vec<Spanned<String>>>>,
    deny: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected true, false, or a table with max and expires")]
pub(super) enum Responses {
    Switch(bool),
    Limits(ResponsesTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResponsesTable {
    max: Option<i64>,
    expires: Option<String>,
}

/// An error at a byte of the file.
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) reason: String,
}

pub(super) fn wrong<T>(spanned: &Spanned<T>, key: &str, reason: impl std::fmt::Display) -> Wrong {
    Wrong { at: spanned.span().start, reason: format!("{key}: {reason}") }
}

/// `None` if no permissions are given.
pub(super) fn rules(
    place: &str,
    publish: Option<&Spanned<Lists>>,
    subscribe: Option<&Spanned<Lists>>,
    allow_responses: Option<&Spanned<Responses>>,
) -> Result<Option<Rules>, Wrong> {
    if publish.is_none() && subscribe.is_none() && allow_responses.is_none() {
        return Ok(None);
    }
    let mut rules = Rules::default();
    if let Some(lists) = publish {
        (rules.publish_allow, rules.publish_deny) = both(&format!("{place}.publish"), lists, false)?;
    }
    if let Some(lists) = subscribe {
        (rules.subscribe_allow, rules.subscribe_deny) = both(&format!("{place}.subscribe"), lists, true)?;
    }
    if let Some(responses) = allow_responses {
        rules.responses = limits(responses, &format!("{place}.allow_responses"))?;
    }
    if rules.responses.is_some() {
        // As in nats-server: a user who may reply, and has no publish list, may publish nothing else.
        rules.publish_allow.get_or_insert_default();
    }
    Ok(Some(rules))
}

fn both(place: &str, lists: &Spanned<Lists>, queues: bool) -> Result<(Option<Entries>, Entries), Wrong> {
    let (allow, deny) = (&lists.get_ref().allow, &lists.get_ref().deny);
    if allow.is_none() && deny.as_ref().is_none_or(Vec::is_empty) {
        return Err(wrong(lists, place, "it says nothing: give allow or deny"));
    }
    let allow = match allow {
        // nats-server treats an empty list as no list, and allows everything.
        Some(list) if list.get_ref().is_empty() => {
            let reason = "an empty list is ambiguous: to allow nothing, write deny = [\">\"]";
            return Err(wrong(list, &format!("{place}.allow"), reason));
        }
        Some(list) => Some(entries(&format!("{place}.allow"), list.get_ref(), queues)?),
        None => None,
    };
    let deny = entries(&format!("{place}.deny"), deny.as_deref().unwrap_or_default(), queues)?;
    Ok((allow, deny))
}

fn entries(key: &str, texts: &[Spanned<String>], queues: bool) -> Result<Entries, Wrong> {
    let mut entries = Entries::default();
    for text in texts {
        entries.push(text.get_ref(), queues).map_err(|reason| wrong(text, key, reason))?;
    }
    Ok(entries)
}

fn limits(responses: &Spanned<Responses>, key: &str) -> Result<Option<ResponseLimits>, Wrong> {
    let table = match responses.get_ref() {
        Responses::Switch(false) => return Ok(None),
        Responses::Switch(true) => return Ok(Some(ResponseLimits::default())),
        Responses::Limits(table) => table,
    };
    let mut limits = ResponseLimits::default();
    match table.max {
        None => {}
        Some(-1) => limits.max = None,
        Some(max) => match u32::try_from(max) {
            Ok(max @ 1..) => limits.max = Some(max),
            _ => {
                return Err(wrong(
                    responses,
                    key,
                    format!("max: {max} is not at least 1, nor -1 for no limit"),
                ));
            }
        },
    }
    match table.expires.as_deref() {
        None => {}
        Some("never") => limits.expires_ms = None,
        Some(text) => {
            let expires = duration_ms(text);
            limits.expires_ms = Some(expires.ok_or_else(|| {
                wrong(
                    responses,
                    key,
                    format!("expires: {text:?} is not a duration such as 500ms, 30s or 2m, or never"),
                )
            })?);
        }
    }
    Ok(Some(limits))
}

/// Parses a number with a unit to milliseconds.
pub(super) fn duration_ms(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let ms = number.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    (1..=86_400_000 * 366).contains(&ms).then_some(ms)
}
