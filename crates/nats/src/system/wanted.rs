//! What a request to the server asks for. The system account may ask about everything, every other account
//! about itself. Where rules decide, users of one account need not know of each other: its connections are
//! told only to those who may describe the cluster, as by HTTP.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use form_urlencoded::Serializer;
use serde_json::{Map, Value, json};
use tailrace_nats_wire::Message;

use crate::account::Account;
use crate::client::Client;
use crate::front::NatsFront;
use crate::go_time::rfc3339;

/// Largest body of a request, in bytes.
const BODY_BYTES_MAX: usize = 4096;

/// Names in subjects, and the paths of their pages.
const PAGES: [(&str, &str); 9] = [
    ("VARZ", "/varz"),
    ("CONNZ", "/connz"),
    ("SUBSZ", "/subsz"),
    ("ROUTEZ", "/routez"),
    ("GATEWAYZ", "/gatewayz"),
    ("LEAFZ", "/leafz"),
    ("ACCOUNTZ", "/accountz"),
    ("JSZ", "/jsz"),
    ("IPQUEUESZ", "/ipqueuesz"),
];

/// What a request asks for.
pub(super) enum Wanted {
    /// This body, as it is.
    Plain(Value),
    /// The server's numbers. Without a reply subject they go where they are published regularly.
    Statistics,
    /// Whether the server is well.
    Health {
        /// Whether it must have JetStream.
        with_jetstream: bool,
    },
    /// The number of clients' subscriptions that get what is published to a subject, or that are within a
    /// pattern.
    Subscribers {
        account: Arc<Account>,
        subject: String,
        queue: Option<Vec<u8>>,
    },
    /// An answer with this data.
    Done(Value),
    /// An answer with an error.
    Refused(u16, String),
    Page {
        path: &'static str,
        query: String,
    },
    /// The connections of the account that asks.
    OwnConnections {
        query: String,
    },
    /// The numbers of accounts that have connections. If none has, there is no answer.
    UsedAccounts {
        query: String,
    },
    /// An account.
    Account(String),
    /// The number of connections of an account.
    Connections(String),
    /// The claims of an account, as they are.
    Token(Arc<str>),
    /// All claims: a message for each, and an empty one.
    Pack,
    /// To store claims, of the account that the subject names.
    Update {
        token: String,
        about: Option<String>,
    },
    /// To delete accounts.
    Delete(String),
    /// To end a connection.
    Kick(u64),
    /// To tell a client to connect elsewhere.
    SendAway(u64),
}

/// Who asks.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) front: &'a NatsFront,
    pub(super) account: &'a Arc<Account>,
    pub(super) client: &'a Client,
}

/// Returns what a request asks for. `None` if it is not answered.
pub(super) fn wanted(from: Asking<'_>, message: &Message<'_>) -> Option<Wanted> {
    let Asking { front, account, client } = from;
    let subject = std::str::from_utf8(message.subject).ok()?.strip_prefix("$SYS.REQ.")?;
    let is_system = front.accounts().system().is_some_and(|system| Arc::ptr_eq(&system, account));
    let words: Vec<&str> = subject.split('.').collect();
    if is_system && let Some(wanted) = claims(front, &words, message) {
        return Some(wanted);
    }
    if words == ["USER", "INFO"] {
        return Some(Wanted::Done(user_info(front, client)));
    }
    let (options, fault) = match options(message.payload) {
        Ok(options) => (options, None),
        Err(reason) => (Options::new(), Some(reason)),
    };
    let asked = Asked { front, options: &options, has_body: !message.payload.is_empty() };
    if !asked.is_about_this_server() {
        return None;
    }
    let wanted = match words[..] {
        ["SERVER" | "ACCOUNT", "PING", "CONNZ"] if !is_system => {
            Some(Wanted::OwnConnections { query: query(&options, Some(account.name())) })
        }
        ["ACCOUNT", "PING", "STATZ"] => {
            let about = (!is_system).then(|| &**account.name());
            Some(Wanted::UsedAccounts { query: query(&options, about) })
        }
        _ if is_system => asked.by_system(&words),
        _ => None,
    }?;
    Some(fault.map_or(wanted, |reason| Wanted::Refused(400, reason)))
}

/// What a user of the system account may ask an operator's server.
fn claims(front: &NatsFront, words: &[&str], message: &Message<'_>) -> Option<Wanted> {
    let operator = front.auth().operator()?;
    let token = || String::from_utf8(message.payload.to_vec()).ok();
    Some(match *words {
        ["CLAIMS", "LIST"] => Wanted::Done(json!(operator.ids())),
        ["CLAIMS", "PACK"] => Wanted::Pack,
        ["CLAIMS", "UPDATE"] => Wanted::Update { token: token()?, about: None },
        ["CLAIMS", "DELETE"] => Wanted::Delete(token()?),
        ["ACCOUNT", about, "CLAIMS", "LOOKUP"] => Wanted::Token(operator.token(about)?),
        ["ACCOUNT", about, "CLAIMS", "UPDATE"] => {
            Wanted::Update { token: token()?, about: Some(about.to_owned()) }
        }
        _ => return None,
    })
}

/// The options in a request's body.
type Options = Map<String, Value>;

/// Reads the options. The error says what is wrong.
fn options(body: &[u8]) -> Result<Options, String> {
    if body.is_empty() {
        return Ok(Options::new());
    }
    if body.len() > BODY_BYTES_MAX {
        return Err(format!("the options have at most {BODY_BYTES_MAX} bytes"));
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

struct Asked<'a> {
    front: &'a NatsFront,
    options: &'a Options,
    has_body: bool,
}

impl Asked<'_> {
    fn by_system(&self, words: &[&str]) -> Option<Wanted> {
        let front = self.front;
        let id = &*front.server_info().server_id;
        let path = |name: &str| PAGES.iter().find(|(known, _)| *known == name).map(|(_, path)| *path);
        let is_for_us = |who: &str| who == "PING" || who == id;
        let cid = || self.options.get("cid").map_or(Some(0), Value::as_u64);
        Some(match *words {
            ["SERVER", "PING"] => Wanted::Statistics,
            ["SERVER", who, "STATSZ"] if is_for_us(who) => Wanted::Statistics,
            ["SERVER", who, "HEALTHZ"] if is_for_us(who) => {
                let asks = |key: &str| self.options.get(key) == Some(&Value::Bool(true));
                Wanted::Health { with_jetstream: asks("js-enabled-only") || asks("js-enabled") }
            }
            ["SERVER", who, "IDZ"] if is_for_us(who) => Wanted::Plain(identity(front)),
            // Only one server has a connection of this number, so all of them are never asked.
            ["SERVER", who, "KICK"] if who == id && self.has_body => Wanted::Kick(cid()?),
            ["SERVER", who, "LDM"] if who == id && self.has_body => Wanted::SendAway(cid()?),
            ["SERVER", who, name] if is_for_us(who) => self.page(path(name)?, None),
            ["ACCOUNT", "NSUBS"] => self.subscribers()?,
            ["ACCOUNT", _, "JSZ"] => {
                let is_on = front.jetstream().is_some();
                let why =
                    if is_on { "streams of one account are not shown" } else { "jetstream not enabled" };
                Wanted::Refused(500, why.to_owned())
            }
            ["ACCOUNT", about, "INFO"] => Wanted::Account(about.to_owned()),
            ["ACCOUNT", about, "CONNS"] => Wanted::Connections(about.to_owned()),
            ["ACCOUNT", about, "STATZ"] => Wanted::UsedAccounts { query: query(self.options, Some(about)) },
            ["ACCOUNT", about, "SUBSZ"] => {
                let query = query(self.options, Some(about));
                Wanted::Page { path: "/subsz", query: format!("{query}&subs=true") }
            }
            ["ACCOUNT", about, name @ ("CONNZ" | "LEAFZ")] => self.page(path(name)?, Some(about)),
            _ => return None,
        })
    }

    /// As in nats-server, nobody answers for an account without connections.
    fn subscribers(&self) -> Option<Wanted> {
        let text = |key: &str| self.options.get(key).and_then(Value::as_str).unwrap_or_default();
        let account = self.front.accounts().find(text("acc")).filter(|account| account.connections() > 0)?;
        let queue = Some(text("queue")).filter(|queue| !queue.is_empty());
        // Bytes are base64 in the JSON of Go.
        let queue = queue.map(|queue| STANDARD.decode(queue)).transpose().ok()?;
        Some(Wanted::Subscribers { account, subject: text("subject").to_owned(), queue })
    }

    fn page(&self, path: &'static str, about: Option<&str>) -> Wanted {
        Wanted::Page { path, query: query(self.options, about) }
    }

    /// Reports whether the options name this server, or none. There are no tags and no JetStream domains.
    fn is_about_this_server(&self) -> bool {
        let text = |key: &str| self.options.get(key).and_then(Value::as_str).unwrap_or_default();
        let is_exact = self.options.get("exact_match") == Some(&Value::Bool(true));
        let (info, addresses) = (self.front.server_info(), self.front.addresses());
        let names = [
            ("server_name", info.server_name.as_str()),
            ("host", info.host.as_str()),
            ("cluster", addresses.cluster.as_str()),
        ];
        let is_named = names.into_iter().all(|(key, own)| match text(key) {
            "" => true,
            wanted if is_exact => wanted == own,
            wanted => own.contains(wanted),
        });
        let has_tags =
            self.options.get("tags").and_then(Value::as_array).is_some_and(|tags| !tags.is_empty());
        is_named && !has_tags && text("domain").is_empty()
    }
}

/// Returns the options of a request as a page's query. An account that is asked about counts before one in
/// the body.
fn query(options: &Options, about: Option<&str>) -> String {
    let mut query = Serializer::new(String::new());
    if let Some(account) = about {
        query.append_pair("acc", account);
    }
    for (key, value) in options {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(truth) => truth.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Array(list) if key == "accounts" => {
                list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
            }
            Value::Null | Value::Array(_) | Value::Object(_) => continue,
        };
        // The first one of a name counts.
        match key.as_str() {
            "subscriptions" => query.append_pair("subs", &text),
            "subscriptions_detail" if text == "true" => query.append_pair("subs", "detail"),
            "account" | "accounts" => query.append_pair("acc", &text),
            "include_unused" => query.append_pair("unused", &text),
            "state" => {
                let names = ["open", "closed", "any"];
                let name = text.parse().ok().and_then(|at: usize| names.get(at).copied());
                query.append_pair("state", name.unwrap_or(&text))
            }
            key => query.append_pair(key, &text),
        };
    }
    query.finish()
}

fn user_info(front: &NatsFront, client: &Client) -> Value {
    let user = client.permissions().and_then(|permissions| permissions.shown_user());
    let mut info = json!({
        "user": user.unwrap_or_default(),
        "account": client.account(),
        "account_name": super::name_tag(front, client.account()),
    });
    let claimed = client.permissions().and_then(|permissions| permissions.claimed());
    if let Some(name) = claimed.map(|claimed| &claimed.user.display_name).filter(|name| !name.is_empty()) {
        info["user_name"] = json!(&**name);
    }
    if let Some(left) = client.permissions().and_then(|permissions| permissions.time_left()) {
        info["expires"] = json!(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
    }
    info
}

fn identity(front: &NatsFront) -> Value {
    let info = front.server_info();
    json!({ "name": info.server_name, "host": info.host, "id": info.server_id })
}

pub(super) fn statistics(front: &NatsFront) -> Value {
    let metrics = front.metrics();
    let sent = json!({ "msgs": metrics.messages_out.get(), "bytes": metrics.bytes_out.get() });
    let received = json!({ "msgs": metrics.messages_in.get(), "bytes": metrics.bytes_in.get() });
    let statistics = json!({
        "start": rfc3339(front.started()),
        "connections": metrics.connections.get(),
        "total_connections": metrics.connections_accepted.get(),
        "active_accounts": front.accounts().all().iter().filter(|one| one.connections() > 0).count(),
        "subscriptions": metrics.subscriptions.get(),
        "sent": sent,
        "sent_to_clients": sent,
        "received": received,
        "received_from_clients": received,
        "slow_consumers": metrics.slow_consumers.get(),
    });
    json!({ "server": super::server(front), "statsz": statistics })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_asks_about_itself_whatever_the_body_says() {
        let options = options(br#"{"account":"B","acc":"C","cid":7,"auth":true,"state":1}"#).unwrap();
        let found = query(&options, Some("A"));
        let first = form_urlencoded::parse(found.as_bytes()).find(|(key, _)| key == "acc").unwrap();
        assert_eq!(first.1, "A");
        assert!(found.contains("cid=7&") && found.contains("state=closed"), "{found}");
    }

    #[test]
    fn options_are_bounded_and_must_be_an_object() {
        assert!(options(b"").unwrap().is_empty());
        for bad in [&b"[]"[..], b"{", b"7", &[b' '; BODY_BYTES_MAX + 1]] {
            assert!(options(bad).is_err(), "{}", bad.escape_ascii());
        }
    }
}
