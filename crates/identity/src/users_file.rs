//! The users file: TOML. Unknown keys are errors, every error has its line and key, and no error shows a
//! secret.
//!
//! ```toml
//! no_auth_user = "guest"    # the user of clients that present no credentials
//!
//! [default_permissions]     # for users without permissions of their own
//! subscribe = { allow = ["public.>"] }
//!
//! [[users]]
//! user = "alice"
//! password = "$2b$11$..."               # or plain text
//! publish = { allow = ["orders.>"], deny = ["orders.audit"] }
//! subscribe = { allow = ["orders.>", "jobs.> workers"] }
//! allow_responses = { max = 2, expires = "1m" }   # or true: one reply within two minutes
//!
//! [[users]]
//! nkey = "U..."
//! ```

use serde::Deserialize;
use serde::de::Error;
use toml::Spanned;

use crate::errors::UsersFileError;
use crate::nkey::PublicKey;
use crate::rules::{Entries, ResponseLimits, Rules};
use crate::users::{Proof, Users};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsersFile {
    no_auth_user: Option<Spanned<String>>,
    default_permissions: Option<PermissionsTable>,
    #[serde(default)]
    users: Vec<Spanned<UserTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserTable {
    user: Option<Spanned<String>>,
    nkey: Option<Spanned<String>>,
    password: Option<Spanned<PasswordText>>,
    publish: Option<Spanned<Lists>>,
    subscribe: Option<Spanned<Lists>>,
    allow_responses: Option<Spanned<Responses>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PermissionsTable {
    publish: Option<Spanned<Lists>>,
    subscribe: Option<Spanned<Lists>>,
    allow_responses: Option<Spanned<Responses>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    allow: Option<Spanned<Vec<Spanned<String>>>>,
    deny: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected true, false, or a table with max and expires")]
enum Responses {
    Switch(bool),
    Limits(ResponsesTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResponsesTable {
    max: Option<i64>,
    expires: Option<String>,
}

/// A string whose type errors do not show it, unlike serde's: "invalid type: integer `1234`".
struct PasswordText(String);

impl<'de> Deserialize<'de> for PasswordText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(Self(text)),
            _ => Err(D::Error::custom("a password must be a string in quotes")),
        }
    }
}

/// An error at a byte of the file.
struct Wrong {
    at: usize,
    reason: String,
}

fn wrong<T>(spanned: &Spanned<T>, key: &str, reason: impl std::fmt::Display) -> Wrong {
    Wrong { at: spanned.span().start, reason: format!("{key}: {reason}") }
}

impl Users {
    /// Adds the users of a file with this text.
    ///
    /// # Errors
    /// Describes what is wrong with the file, and where.
    pub fn read(&mut self, text: &str) -> Result<(), UsersFileError> {
        let added = toml::from_str::<UsersFile>(text)
            .map_err(|error| Wrong {
                at: error.span().map_or(0, |span| span.start),
                reason: error.message().to_owned(),
            })
            .and_then(|file| add_all(self, file));
        added.map_err(|Wrong { at, reason }| {
            let line = 1 + text.bytes().take(at).filter(|b| *b == b'\n').count();
            UsersFileError { line, reason }
        })
    }
}

fn add_all(users: &mut Users, file: UsersFile) -> Result<(), Wrong> {
    let defaults = match &file.default_permissions {
        Some(table) => rules(
            "default_permissions",
            table.publish.as_ref(),
            table.subscribe.as_ref(),
            table.allow_responses.as_ref(),
        )?,
        None => None,
    };
    if file.users.is_empty() {
        return Err(Wrong { at: 0, reason: "users: there are none; add [[users]]".to_owned() });
    }
    for user in &file.users {
        add_user(users, user, defaults.as_ref())?;
    }
    if let Some(name) = &file.no_auth_user {
        let user = users.user(name.get_ref()).cloned();
        let user = user.ok_or_else(|| wrong(name, "no_auth_user", "there is no such user"))?;
        users.guest = Some(user);
    }
    Ok(())
}

fn add_user(users: &mut Users, table: &Spanned<UserTable>, defaults: Option<&Rules>) -> Result<(), Wrong> {
    let user = table.get_ref();
    let (name, proof) = match (&user.user, &user.nkey, &user.password) {
        (Some(name), None, Some(password)) => {
            if name.get_ref().is_empty() {
                return Err(wrong(name, "user", "it must not be empty"));
            }
            let secret =
                users.secret(&password.get_ref().0).map_err(|reason| wrong(password, "password", reason))?;
            (name, Proof::Password(secret))
        }
        (None, Some(nkey), None) => {
            let key = PublicKey::parse(nkey.get_ref()).map_err(|reason| wrong(nkey, "nkey", reason))?;
            (nkey, Proof::Key(key))
        }
        (Some(name), None, None) => return Err(wrong(name, "password", "it is missing for this user")),
        (_, Some(nkey), _) => {
            return Err(wrong(nkey, "nkey", "a user has either an nkey, or user and password"));
        }
        (None, None, _) => return Err(wrong(table, "users", "user or nkey is missing")),
    };
    let own = rules("users", user.publish.as_ref(), user.subscribe.as_ref(), user.allow_responses.as_ref())?;
    let rules = own.or_else(|| defaults.cloned());
    users.add(name.get_ref(), proof, rules).map_err(|reason| wrong(name, "users", reason))
}

/// `None` if no permissions are given.
fn rules(
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
fn duration_ms(text: &str) -> Option<u64> {
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
