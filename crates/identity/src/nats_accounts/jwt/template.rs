//! Permissions of a scope: patterns with places like `{{name()}}`, which are filled in for each user.
//!
//! The user's name and tags are chosen by the holder of the signing key, who may be anybody to whom the
//! account gave a scope. So no value brings wildcards, and no value is read again as a template.

use super::super::pattern;
use super::forms::{Lists, UserBody};
use super::permissions::PATTERNS_MAX;

/// Maximum number of different places in one pattern.
const PLACES_MAX: usize = 16;

/// What the places stand for.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    pub(super) name: &'a str,
    pub(super) subject: &'a str,
    pub(super) account_name: &'a str,
    pub(super) account_subject: &'a str,
    pub(super) tags: &'a [String],
    pub(super) account_tags: &'a [String],
}

/// Which of the two lists it is: a pattern that cannot be filled in is left out of an allow list, and is an
/// error in a deny list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Allow,
    Deny,
}

/// Fills in the permissions of a template. An allow list of which nothing is left becomes a denial of
/// everything.
///
/// # Errors
/// A place is unknown, a denied pattern cannot be filled in, or there are too many patterns.
pub(super) fn filled(template: &UserBody, values: Values<'_>) -> Result<UserBody, String> {
    let mut filled = template.clone();
    for lists in [&mut filled.publish, &mut filled.subscribe] {
        *lists = both(lists, values)?;
    }
    Ok(filled)
}

fn both(lists: &Lists, values: Values<'_>) -> Result<Lists, String> {
    let allow = list(&lists.allow, values, List::Allow)?;
    let mut deny = list(&lists.deny, values, List::Deny)?;
    if allow.is_empty() && !lists.allow.is_empty() {
        deny.push(">".to_owned());
    }
    Ok(Lists { allow, deny })
}

fn list(patterns: &[String], values: Values<'_>, list: List) -> Result<Vec<String>, String> {
    let mut filled = Vec::new();
    for pattern in patterns {
        let parts = parts(pattern);
        if parts.iter().all(|part| matches!(part, Part::Text(_))) {
            filled.push(pattern.clone());
            continue;
        }
        let places = places(&parts)?;
        let choices: Vec<Vec<&str>> =
            places.iter().map(|place| values.of(place)).collect::<Result<_, _>>()?;
        let count = choices.iter().try_fold(1_usize, |count, choice| count.checked_mul(choice.len()));
        if count.is_none_or(|count| filled.len() + count > PATTERNS_MAX) {
            return Err(format!("its lists have at most {PATTERNS_MAX} subjects"));
        }
        let before = filled.len();
        let mut made = 0;
        combine(&choices, &mut Vec::new(), &mut |chosen| {
            made += 1;
            filled.extend(fill(&parts, &places, chosen));
        });
        let is_complete = made > 0 && filled.len() == before + made;
        if list == List::Deny && !is_complete {
            return Err(format!("{pattern:?} cannot be filled in for this user"));
        }
    }
    Ok(filled)
}

/// A part of a pattern.
enum Part<'a> {
    Text(&'a str),
    /// What stands between `{{` and `}}`.
    Place(&'a str),
}

/// Splits a pattern. `{{` without `}}` is text.
fn parts(pattern: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some((text, after)) = rest.split_once("{{") {
        let Some((place, after)) = after.split_once("}}") else { break };
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        parts.push(Part::Place(place.trim()));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest));
    }
    parts
}

/// Returns the different places.
fn places<'a>(parts: &[Part<'a>]) -> Result<Vec<&'a str>, String> {
    let mut places: Vec<&str> = Vec::new();
    for part in parts {
        if let Part::Place(place) = part
            && !places.contains(place)
        {
            places.push(place);
        }
    }
    if places.len() > PLACES_MAX {
        return Err(format!("a subject has at most {PLACES_MAX} different places"));
    }
    Ok(places)
}

impl<'a> Values<'a> {
    /// Returns the values of a place: one, or one for each tag.
    fn of(self, place: &str) -> Result<Vec<&'a str>, String> {
        let Some((function, argument)) = place.strip_suffix(')').and_then(|text| text.split_once('(')) else {
            return Err(format!("{place:?} is not a function of templates"));
        };
        let tags = |tags: &'a [String]| {
            let prefix = format!("{}:", argument.to_lowercase());
            tags.iter().filter_map(|tag| tag.strip_prefix(prefix.as_str())).collect()
        };
        match (function.to_ascii_lowercase().as_str(), argument) {
            ("name", "") => Ok(vec![self.name]),
            ("subject", "") => Ok(vec![self.subject]),
            ("account-name", "") => Ok(vec![self.account_name]),
            ("account-subject", "") => Ok(vec![self.account_subject]),
            ("tag", _) => Ok(tags(self.tags)),
            ("account-tag", _) => Ok(tags(self.account_tags)),
            _ => Err(format!("{place:?} is not a function of templates")),
        }
    }
}

/// Calls `with` for each combination of one value of each place.
fn combine<'a>(choices: &[Vec<&'a str>], chosen: &mut Vec<&'a str>, with: &mut impl FnMut(&[&'a str])) {
    let Some((first, rest)) = choices.split_first() else {
        return with(chosen);
    };
    for value in first {
        chosen.push(value);
        combine(rest, chosen, with);
        chosen.pop();
    }
}

/// Fills a pattern in. `None` if the result is no pattern, or a value would bring a wildcard.
fn fill(parts: &[Part<'_>], places: &[&str], chosen: &[&str]) -> Option<String> {
    let mut filled = String::new();
    for part in parts {
        match part {
            Part::Text(text) => filled.push_str(text),
            Part::Place(place) => {
                let value = chosen.get(places.iter().position(|other| other == place)?)?;
                let is_dangerous = |c: char| matches!(c, '*' | '>') || c.is_whitespace() || c.is_control();
                if value.contains(is_dangerous) {
                    return None;
                }
                filled.push_str(value);
            }
        }
    }
    filled.split(' ').all(pattern::is_valid).then_some(filled)
}
