//! Requests to the server: who am I, and the monitoring pages. The system account may ask about everything,
//! every other account about itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use form_urlencoded::Serializer;
use serde_json::{Value, json};
use tailrace_metadata::Command;
use tailrace_nats_wire::Message;
use tailrace_node::Caller;

use crate::account::Account;
use crate::burst::Burst;
use crate::client::Client;
use crate::front::NatsFront;
use crate::monitor::{self, MonitorAnswer};
use crate::server::NatsServer;

/// Most requests of one connection that are being answered. A further one has no responders.
const ANSWERING_MAX: usize = 16;

/// Largest body of a request, in bytes.
const BODY_BYTES_MAX: usize = 4096;

/// Names in subjects, and the paths of their pages.
const PAGES: [(&str, &str); 8] = [
    ("VARZ", "/varz"),
    ("CONNZ", "/connz"),
    ("SUBSZ", "/subsz"),
    ("ROUTEZ", "/routez"),
    ("GATEWAYZ", "/gatewayz"),
    ("LEAFZ", "/leafz"),
    ("ACCOUNTZ", "/accountz"),
    ("JSZ", "/jsz"),
];

/// A request that the connection's task has answered by another one.
pub(crate) struct Question {
    account: Arc<Account>,
    caller: Caller,
    reply: Vec<u8>,
    wanted: Wanted,
    _place: Place,
}

enum Wanted {
    Done(Value),
    Page {
        path: &'static str,
        query: String,
    },
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
}

/// The requests of one connection.
#[derive(Default)]
pub(crate) struct Questions {
    waiting: Vec<Question>,
    answering: Arc<AtomicUsize>,
}

struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Questions {
    /// Takes a request to the server. Reports whether it is one that is answered.
    pub(crate) fn take(
        &mut self,
        front: &NatsFront,
        account: &Arc<Account>,
        client: &Client,
        message: &Message<'_>,
    ) -> bool {
        let Some(reply) = message.reply.filter(|reply| !reply.starts_with(b"$")) else { return false };
        if self.answering.load(Ordering::Relaxed) >= ANSWERING_MAX {
            return false;
        }
        let Some(wanted) = wanted(front, account, client, message) else { return false };
        self.answering.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&self.answering));
        let (account, caller) = (Arc::clone(account), client.caller());
        self.waiting.push(Question { account, caller, reply: reply.to_vec(), wanted, _place: place });
        true
    }

    /// Takes the requests that nobody answers yet.
    pub(crate) fn drain(&mut self) -> Vec<Question> {
        std::mem::take(&mut self.waiting)
    }
}

fn wanted(
    front: &NatsFront,
    account: &Arc<Account>,
    client: &Client,
    message: &Message<'_>,
) -> Option<Wanted> {
    let subject = std::str::from_utf8(message.subject).ok()?.strip_prefix("$SYS.REQ.")?;
    let is_system = front.accounts().system().is_some_and(|system| Arc::ptr_eq(&system, account));
    let words: Vec<&str> = subject.split('.').collect();
    let id = &*front.server_info().server_id;
    let page = |name: &str| PAGES.iter().find(|(known, _)| *known == name).map(|(_, path)| *path);
    let of = |path, about: Option<&str>| Some(Wanted::Page { path, query: query(message.payload, about)? });
    if let (Some(operator), true) = (front.auth().operator(), is_system) {
        match words[..] {
            ["CLAIMS", "LIST"] => return Some(Wanted::Done(json!(operator.ids()))),
            ["ACCOUNT", about, "CLAIMS", "LOOKUP"] => {
                return operator.token(about).map(Wanted::Token);
            }
            ["CLAIMS", "PACK"] => return Some(Wanted::Pack),
            ["CLAIMS", verb @ ("UPDATE" | "DELETE")] => {
                let token = String::from_utf8(message.payload.to_vec()).ok()?;
                return Some(if verb == "UPDATE" {
                    Wanted::Update { token, about: None }
                } else {
                    Wanted::Delete(token)
                });
            }
            ["ACCOUNT", about, "CLAIMS", "UPDATE"] => {
                let token = String::from_utf8(message.payload.to_vec()).ok()?;
                return Some(Wanted::Update { token, about: Some(about.to_owned()) });
            }
            _ => {}
        }
    }
    match words[..] {
        ["USER", "INFO"] => Some(Wanted::Done(user_info(client))),
        ["SERVER", "PING"] if is_system => Some(Wanted::Done(statistics(front))),
        ["SERVER", who, "STATSZ"] if is_system && (who == "PING" || who == id) => {
            Some(Wanted::Done(statistics(front)))
        }
        ["SERVER", who, name] if is_system && (who == "PING" || who == id) => of(page(name)?, None),
        ["ACCOUNT", about, name @ ("CONNZ" | "SUBSZ")] if is_system => of(page(name)?, Some(about)),
        ["ACCOUNT", about, "INFO"] if is_system => of("/accountz", Some(about)),
        ["SERVER" | "ACCOUNT", "PING", "CONNZ"] => of("/connz", Some(account.name())),
        ["ACCOUNT", "PING", "STATZ"] => of("/accountz", Some(account.name())),
        _ => None,
    }
}

/// Returns the options of a request as a page's query. An account that is asked about counts before one in
/// the body. `None` if the body is not an object.
fn query(body: &[u8], about: Option<&str>) -> Option<String> {
    let mut query = Serializer::new(String::new());
    if let Some(account) = about {
        query.append_pair("acc", account);
    }
    if body.is_empty() {
        return Some(query.finish());
    }
    if body.len() > BODY_BYTES_MAX {
        return None;
    }
    let Ok(Value::Object(options)) = serde_json::from_slice(body) else { return None };
    for (key, value) in &options {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(truth) => truth.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => continue,
        };
        // The first one of a name counts.
        match key.as_str() {
            "subscriptions" => query.append_pair("subs", &text),
            "subscriptions_detail" if text == "true" => query.append_pair("subs", "detail"),
            "account" => query.append_pair("acc", &text),
            "state" => {
                let names = ["open", "closed", "any"];
                let name = text.parse().ok().and_then(|at: usize| names.get(at).copied());
                query.append_pair("state", name.unwrap_or(&text))
            }
            key => query.append_pair(key, &text),
        };
    }
    Some(query.finish())
}

fn user_info(client: &Client) -> Value {
    let user = client.permissions().and_then(|permissions| permissions.user().name()).map(|name| &**name);
    let expires = client.permissions().and_then(|permissions| permissions.time_left());
    let expires_ns = expires.map_or(0, |left| u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
    json!({ "user": user.unwrap_or_default(), "account": client.account(), "expires": expires_ns })
}

fn statistics(front: &NatsFront) -> Value {
    let metrics = front.metrics();
    json!({
        "start": monitor::rfc3339(front.started()),
        "connections": metrics.connections.get(),
        "total_connections": metrics.connections_accepted.get(),
        "active_accounts": front.accounts().all().iter().filter(|one| one.connections() > 0).count(),
        "subscriptions": metrics.subscriptions.get(),
        "sent": { "msgs": metrics.messages_out.get(), "bytes": metrics.bytes_out.get() },
        "received": { "msgs": metrics.messages_in.get(), "bytes": metrics.bytes_in.get() },
        "slow_consumers": metrics.slow_consumers.get(),
    })
}

/// Answers a request. May take a while.
pub(crate) async fn answer(server: Arc<NatsServer>, question: Question) {
    let front = &server.front;
    let data = match &question.wanted {
        Wanted::Done(data) => Ok(data.clone()),
        Wanted::Token(token) => return say(&server, &question, token.as_bytes()),
        Wanted::Pack => return pack(&server, &question),
        Wanted::Update { token, about } => update(&server, &question.caller, token, about.as_deref()).await,
        Wanted::Delete(token) => delete(&server, &question.caller, token).await,
        Wanted::Page { path, query } => match monitor::respond(&server, path, query).await {
            Some(MonitorAnswer::Page(text)) => {
                serde_json::from_str(&text).map_err(|error| (500, error.to_string()))
            }
            Some(MonitorAnswer::BadQuery(reason)) => Err((400, reason)),
            Some(MonitorAnswer::Failed) | None => Err((500, "the page could not be made".to_owned())),
        },
    };
    let mut body = json!({ "server": super::server(front) });
    match data {
        Ok(data) => body["data"] = data,
        Err((code, reason)) => body["error"] = json!({ "code": code, "description": reason }),
    }
    say(&server, &question, body.to_string().as_bytes());
}

/// Stores claims that the operator has signed, on all nodes.
async fn update(
    server: &NatsServer,
    caller: &Caller,
    token: &str,
    about: Option<&str>,
) -> Result<Value, (u16, String)> {
    let failed = |reason: &dyn std::fmt::Display| (500, reason.to_string());
    let Some(operator) = server.front.auth().operator() else { return Err(failed(&"there is no operator")) };
    let account = operator.check_update(token).map_err(|reason| failed(&reason))?;
    if about.is_some_and(|about| about != account.as_str()) {
        return Err(failed(&"the claims are those of another account than the subject names"));
    }
    let command = Command::StoreAccountClaims { token: token.to_owned() };
    let done = server.node.execute(caller, command).await.map_err(|reason| failed(&reason))?;
    operator.set_stored(done.image.access().account_claims());
    tracing::info!(target: "tailrace::audit", %caller, %account, "the claims of a NATS account were stored");
    Ok(json!({ "account": account.as_str(), "code": 200, "message": "jwt updated" }))
}

/// Deletes accounts, as the operator has signed.
async fn delete(server: &NatsServer, caller: &Caller, token: &str) -> Result<Value, (u16, String)> {
    let failed = |reason: &dyn std::fmt::Display| (500, reason.to_string());
    let Some(operator) = server.front.auth().operator() else { return Err(failed(&"there is no operator")) };
    let deleted = operator.check_deletion(token).map_err(|reason| failed(&reason))?;
    let command = Command::DeleteAccountClaims { token: token.to_owned() };
    let done = server.node.execute(caller, command).await.map_err(|reason| failed(&reason))?;
    operator.set_stored(done.image.access().account_claims());
    let count = deleted.accounts.len();
    tracing::info!(target: "tailrace::audit", %caller, count, "the claims of NATS accounts were deleted");
    Ok(json!({ "code": 200, "message": format!("deleted {count} accounts") }))
}

fn pack(server: &NatsServer, question: &Question) {
    let tokens = server.front.auth().operator().map(|operator| operator.tokens()).unwrap_or_default();
    for (account, token) in tokens {
        say(server, question, format!("{account}|{token}").as_bytes());
    }
    say(server, question, b"");
}

/// Publishes an answer. Topics do not capture it.
fn say(server: &NatsServer, question: &Question, payload: &[u8]) {
    let front = &server.front;
    let message = Message { subject: &question.reply, reply: None, headers: None, payload };
    let mut burst = Burst::default();
    question.account.router().publish(&mut burst, &message, |_| {});
    front.crossed(&mut burst, &message);
    burst.finish(front.metrics());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_asks_about_itself_whatever_the_body_says() {
        let found = query(br#"{"account":"B","acc":"C","cid":7,"auth":true,"state":1}"#, Some("A")).unwrap();
        let first = form_urlencoded::parse(found.as_bytes()).find(|(key, _)| key == "acc").unwrap();
        assert_eq!(first.1, "A");
        assert!(found.contains("cid=7&") && found.contains("state=closed"), "{found}");
        assert_eq!(query(b"[]", None), None);
        assert_eq!(query(&[b' '; BODY_BYTES_MAX + 1], None), None);
    }
}
