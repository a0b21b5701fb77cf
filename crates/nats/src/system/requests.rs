//! Requests to the server, and their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tailrace_identity::acl::Operation;
use tailrace_metadata::Command;
use tailrace_nats_wire::Message;
use tailrace_node::Caller;
use tailrace_node::access::ChangeEnd;

use super::wanted::{Asking, Wanted, statistics, wanted};
use super::{clients, events, regular};
use crate::account::Account;
use crate::auth::{Operator, apply_claims};
use crate::client::Client;
use crate::counted::Counted;
use crate::front::NatsFront;
use crate::monitor::{self, MonitorAnswer};
use crate::server::NatsServer;
use crate::speaker::Speaker;

/// Most requests of one connection that are being answered. A further one has no responders.
const ANSWERING_MAX: usize = 16;

/// A request that the connection's task has answered by another one.
pub(crate) struct Question {
    account: Arc<Account>,
    caller: Caller,
    reply: Vec<u8>,
    wanted: Wanted,
    _place: Counted,
}

/// The requests of one connection.
#[derive(Default)]
pub(crate) struct Questions {
    waiting: Vec<Question>,
    answering: Arc<AtomicUsize>,
}

impl Questions {
    /// Takes a request to the server. Reports whether it is one that is answered. Without a reply subject,
    /// only the server's numbers can be asked for.
    pub(crate) fn take(
        &mut self,
        front: &NatsFront,
        account: &Arc<Account>,
        client: &Client,
        message: &Message<'_>,
    ) -> bool {
        let reply = message.reply.unwrap_or_default();
        if reply.starts_with(b"$") || self.answering.load(Ordering::Relaxed) >= ANSWERING_MAX {
            return false;
        }
        let Some(wanted) = wanted(Asking { front, account, client }, message) else { return false };
        if message.reply.is_none() && !matches!(wanted, Wanted::Statistics) {
            return false;
        }
        let place = Counted::new(&self.answering);
        let (account, caller) = (Arc::clone(account), client.caller());
        self.waiting.push(Question { account, caller, reply: reply.to_vec(), wanted, _place: place });
        true
    }

    /// Takes the requests that nobody answers yet.
    pub(crate) fn drain(&mut self) -> Vec<Question> {
        std::mem::take(&mut self.waiting)
    }
}

/// What an answer says: a body, or an error with its code.
type Said = Result<Value, (u16, String)>;

/// Answers a request. May take a while.
pub(crate) async fn answer(server: Arc<NatsServer>, question: Question) {
    let front = &server.front;
    let caller = &question.caller;
    let said = match &question.wanted {
        Wanted::Plain(body) => return say(&server, &question, body.to_string().as_bytes()).await,
        Wanted::Statistics if question.reply.is_empty() => return regular::statistics(front).await,
        Wanted::Statistics => {
            return say(&server, &question, statistics(front).to_string().as_bytes()).await;
        }
        Wanted::Subscribers { account, subject, queue } => {
            let count = monitor::count_subscribers(&server, account, subject, queue.as_deref()).await;
            if let Some(count) = count {
                say(&server, &question, count.as_bytes()).await;
            }
            return;
        }
        Wanted::Health { with_jetstream } => Ok(Some(health(&server, *with_jetstream))),
        Wanted::Token(token) => return say(&server, &question, token.as_bytes()).await,
        Wanted::Pack => return pack(&server, &question).await,
        Wanted::Connections(account) => {
            // As in nats-server, nobody answers for an account without connections.
            let is_used = front.accounts().find(account).is_some_and(|account| account.connections() > 0);
            if let Some(body) = events::connections(front, account).filter(|_| is_used) {
                say(&server, &question, body.to_string().as_bytes()).await;
            }
            return;
        }
        Wanted::Done(data) => Ok(Some(data.clone())),
        Wanted::Refused(code, reason) => Err((*code, reason.clone())),
        Wanted::Update { token, about } => update(&server, caller, token, about.as_deref()).await.map(Some),
        Wanted::Delete(token) => delete(&server, caller, token).await.map(Some),
        Wanted::Kick(id) => clients::kick(&server, caller, *id).map(|()| None),
        Wanted::SendAway(id) => clients::send_away(&server, caller, *id).map(|()| None),
        Wanted::Account(name) => monitor::account_info(front, name)
            .map(Some)
            .ok_or_else(|| (500, format!("Account {name} does not exist"))),
        Wanted::OwnConnections { query } => match may_see_others(&server, caller) {
            true => page(&server, "/connz", query).await.map(Some),
            false => Err((403, "needs the right to describe the cluster".to_owned())),
        },
        Wanted::Page { path, query } => page(&server, path, query).await.map(Some),
        Wanted::UsedAccounts { query } => match page(&server, "/accstatz", query).await {
            Ok(page) if page["account_statz"].as_array().is_some_and(Vec::is_empty) => return,
            said => said.map(Some),
        },
    };
    let mut body = json!({ "server": super::server(front) });
    match said {
        Ok(Some(data)) => body["data"] = data,
        Ok(None) => {}
        Err((code, reason)) => body["error"] = json!({ "code": code, "description": reason }),
    }
    say(&server, &question, body.to_string().as_bytes()).await;
}

/// Reports whether a client of an account may see its other clients.
fn may_see_others(server: &NatsServer, caller: &Caller) -> bool {
    server.node.rights(caller).may_to_cluster(Operation::Describe)
}

/// Tells whether the server is well, as `/healthz` does.
fn health(server: &NatsServer, with_jetstream: bool) -> Value {
    let mut problems = server.node.problems();
    if with_jetstream && server.front.jetstream().is_none() {
        problems.push("JetStream not enabled".to_owned());
    }
    match problems.is_empty() {
        true => json!({ "status": "ok", "status_code": 200 }),
        false => json!({ "status": "unavailable", "status_code": 503, "error": problems.join("; ") }),
    }
}

async fn page(server: &Arc<NatsServer>, path: &str, query: &str) -> Said {
    match monitor::respond(server, path, query).await {
        Some(MonitorAnswer::Page(text)) => {
            serde_json::from_str(&text).map_err(|error| (500, error.to_string()))
        }
        Some(MonitorAnswer::BadQuery(reason)) => Err((400, reason)),
        Some(MonitorAnswer::Failed) | None => Err((500, "the page could not be made".to_owned())),
    }
}

/// Stores claims that the operator has signed, on all nodes.
async fn update(server: &NatsServer, caller: &Caller, token: &str, about: Option<&str>) -> Said {
    let (operator, account) = checked(server, caller, "StoreAccountClaims", |operator| {
        let account = operator.check_update(token).map_err(|reason| reason.to_string())?;
        match about {
            Some(about) if about != account.as_str() => {
                Err("the claims are those of another account than the subject names".to_owned())
            }
            _ => Ok(account),
        }
    })?;
    let command = Command::StoreAccountClaims { token: token.to_owned() };
    let done = server.node.execute(caller, command).await.map_err(|reason| (500, reason.to_string()))?;
    operator.set_stored(done.image.access().account_claims());
    // Here before the answer, on the other nodes as soon as they have them.
    apply_claims(server);
    Ok(json!({ "account": account.as_str(), "code": 200, "message": "jwt updated" }))
}

/// Deletes accounts, as the operator has signed.
async fn delete(server: &NatsServer, caller: &Caller, token: &str) -> Said {
    let (operator, deleted) = checked(server, caller, "DeleteAccountClaims", |operator| {
        operator.check_deletion(token).map_err(|reason| reason.to_string())
    })?;
    let command = Command::DeleteAccountClaims { token: token.to_owned() };
    let done = server.node.execute(caller, command).await.map_err(|reason| (500, reason.to_string()))?;
    operator.set_stored(done.image.access().account_claims());
    // Here before the answer, on the other nodes as soon as they have them.
    apply_claims(server);
    let count = deleted.accounts.len();
    Ok(json!({ "code": 200, "message": format!("deleted {count} accounts") }))
}

/// Asks the operator about a change of claims. Records a refusal: there will be no command of the controller.
fn checked<T>(
    server: &NatsServer,
    caller: &Caller,
    what: &'static str,
    check: impl FnOnce(&Operator) -> Result<T, String>,
) -> Result<(Arc<Operator>, T), (u16, String)> {
    let refused = |reason: String| {
        server.node.open_change(caller, &what).end(ChangeEnd::Refused(&reason));
        (500, reason)
    };
    let operator = server.front.auth().operator();
    let operator = operator.ok_or_else(|| refused("there is no operator".to_owned()))?;
    let found = check(operator).map_err(refused)?;
    Ok((Arc::clone(operator), found))
}

async fn pack(server: &NatsServer, question: &Question) {
    let tokens = server.front.auth().operator().map(|operator| operator.tokens()).unwrap_or_default();
    let mut speaker = Speaker::patient(&server.front);
    for (account, token) in tokens {
        say_by(&mut speaker, question, format!("{account}|{token}").as_bytes()).await;
    }
    say_by(&mut speaker, question, b"").await;
}

/// Publishes an answer. Topics do not capture it.
async fn say(server: &NatsServer, question: &Question, payload: &[u8]) {
    say_by(&mut Speaker::patient(&server.front), question, payload).await;
}

async fn say_by(speaker: &mut Speaker<'_>, question: &Question, payload: &[u8]) {
    let message = Message { subject: &question.reply, reply: None, headers: None, payload };
    speaker.say(question.account.router(), &message).await;
}
