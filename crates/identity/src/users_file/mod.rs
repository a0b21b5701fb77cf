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
//! user = "CN=app,OU=shop"               # without a password only if certificates name users
//!
//! [[users]]
//! nkey = "U..."
//! account = "SHOP"
//! allowed_connection_types = ["WEBSOCKET"]        # or "STANDARD"; without it, any
//!
//! [[accounts]]
//! name = "SHOP"
//! exports = [{ stream = "news.>" }, { service = "prices", accounts = ["DESK"] }]
//! imports = [{ stream = "ticks.*", from = "FEED", to = "in.*" }]
//! ```

mod accounts;
mod permissions;

use std::sync::Arc;

use serde::Deserialize;
use serde::de::Error;
use toml::Spanned;

use self::accounts::AccountFields;
use self::permissions::{Lists, PermissionsTable, Responses, Wrong, rules, wrong};
use crate::errors::UsersFileError;
use crate::nats_accounts::AccountName;
use crate::nats_accounts::callout::CalloutTable;
use crate::nats_accounts::jwt::ConnectionKind;
use crate::nkey::PublicKey;
use crate::rules::Rules;
use crate::users::{Proof, Users};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsersFile {
    no_auth_user: Option<Spanned<String>>,
    default_permissions: Option<PermissionsTable>,
    auth_callout: Option<Spanned<CalloutTable>>,
    #[serde(default)]
    accounts: Vec<Spanned<AccountFields>>,
    #[serde(default)]
    users: Vec<Spanned<UserTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserTable {
    user: Option<Spanned<String>>,
    nkey: Option<Spanned<String>>,
    password: Option<Spanned<PasswordText>>,
    account: Option<Spanned<String>>,
    publish: Option<Spanned<Lists>>,
    subscribe: Option<Spanned<Lists>>,
    allow_responses: Option<Spanned<Responses>>,
    allowed_connection_types: Option<Spanned<Vec<Spanned<String>>>>,
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

impl Users {
    /// Adds the users of a file with this text.
    ///
    /// # Errors
    /// Describes what is wrong with the file, and where.
    pub fn read(&mut self, text: &str) -> Result<(), UsersFileError> {
        self.read_at(text, 0)
    }

    /// The same at a time in seconds since 1970, for what expires.
    ///
    /// # Errors
    /// Describes what is wrong with the file, and where.
    pub fn read_at(&mut self, text: &str, now_s: i64) -> Result<(), UsersFileError> {
        let added = toml::from_str::<UsersFile>(text)
            .map_err(|error| Wrong {
                at: error.span().map_or(0, |span| span.start),
                reason: error.message().to_owned(),
            })
            .and_then(|file| add_all(self, file, now_s));
        added.map_err(|Wrong { at, reason }| {
            let line = 1 + text.bytes().take(at).filter(|b| *b == b'\n').count();
            UsersFileError { line, reason }
        })
    }
}

fn add_all(users: &mut Users, file: UsersFile, now_s: i64) -> Result<(), Wrong> {
    users.accounts = Arc::new(accounts::table(&file.accounts, now_s)?);
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
    if let Some(table) = &file.auth_callout {
        let is_account = |name: &AccountName| {
            *name == AccountName::global() || users.accounts.account(name.as_str()).is_some()
        };
        let settings = table.get_ref().settings(|user| users.has(user), is_account);
        let settings = settings.map_err(|reason| wrong(table, "auth_callout", reason))?;
        users.callout = Some(settings);
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
        (Some(name), None, None) if users.maps_certificates() && !name.get_ref().is_empty() => {
            (name, Proof::Certificate)
        }
        (Some(name), None, None) => return Err(wrong(name, "password", "it is missing for this user")),
        (_, Some(nkey), _) => {
            return Err(wrong(nkey, "nkey", "a user has either an nkey, or user and password"));
        }
        (None, None, _) => return Err(wrong(table, "users", "user or nkey is missing")),
    };
    let account = user.account.as_ref().map(|text| accounts::name(text, "users.account")).transpose()?;
    let defined = account.as_ref().map(|name| users.accounts.account(name.as_str()));
    if let (Some(None), Some(text)) = (&defined, &user.account) {
        let name = text.get_ref();
        let reason = format!("there is no account '{name}' in this file; add [[accounts]] with that name");
        return Err(wrong(text, "users.account", reason));
    }
    let of_account = defined.flatten().and_then(|account| account.definition().default_permissions.clone());
    let own = rules("users", user.publish.as_ref(), user.subscribe.as_ref(), user.allow_responses.as_ref())?;
    let rules = own.or(of_account).or_else(|| defaults.cloned());
    users.add(name.get_ref(), proof, rules, account).map_err(|reason| wrong(name, "users", reason))?;
    if let Some(list) = &user.allowed_connection_types {
        users.restrict(name.get_ref(), connection_kinds(list)?);
    }
    Ok(())
}

/// Reads the names of kinds of connection. Those that exist in nats-server only allow nothing here.
fn connection_kinds(list: &Spanned<Vec<Spanned<String>>>) -> Result<Arc<[ConnectionKind]>, Wrong> {
    const KEY: &str = "users.allowed_connection_types";
    const ELSEWHERE: [&str; 5] = ["LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"];
    if list.get_ref().is_empty() {
        return Err(wrong(list, KEY, "it must name a kind, such as STANDARD or WEBSOCKET"));
    }
    let mut kinds = Vec::new();
    for name in list.get_ref() {
        let is = |known: &str| name.get_ref().eq_ignore_ascii_case(known);
        let found =
            [ConnectionKind::Standard, ConnectionKind::WebSocket].into_iter().find(|one| is(one.name()));
        if found.is_none() && !ELSEWHERE.into_iter().any(is) {
            let reason = format!("{:?} is no kind of connection; use STANDARD or WEBSOCKET", name.get_ref());
            return Err(wrong(name, KEY, reason));
        }
        kinds.extend(found);
    }
    Ok(kinds.into())
}
