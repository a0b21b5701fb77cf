//! A NATS client of a user whose rules and credentials change. It logs in, subscribes to what a topic
//! captures, publishes there, and waits to be disconnected. Whatever a node does is compared with the rules
//! that this node has.

use std::io;

use tailrace_env::time::{self, Duration, Instant};
use tailrace_types::Offset;

use super::client::{below, pause};
use super::judged::{judge_answer, judge_login};
use super::nats::{ANSWER_TIMEOUT, Message, Said, Talk, late};
use super::publisher::{Told, told};
use super::sasl::{Login, Outcome};
use crate::storm::access::{Look, Overdue, Right, WATCHED, may, now};
use crate::storm::history::{BatchFate, BatchName, SharedHistory};

/// A connection is used for less than this time.
const STAYS_MS: u64 = 3_500;

/// The longest pause between two connections.
const PAUSE_MS: u64 = 300;

/// How long the client listens between two messages, at most.
const LISTENS_MS: u64 = 150;

pub(super) struct Speaker {
    user: &'static str,
    nodes: u8,
    history: SharedHistory,
    /// The next message to publish.
    next: BatchName,
}

/// A connection, and who is on it.
struct Session {
    talk: Talk,
    node: u8,
    login: Login,
    /// The node at the login.
    begun: Look,
    overdue: Overdue,
    /// Since when the node has known that the user may hear nothing, and in which version.
    deaf: Option<(Duration, u64)>,
    inbox: String,
}

impl Speaker {
    /// `number` identifies the client in the history, after the nodes.
    pub(super) fn new(number: usize, user: usize, nodes: u8, history: SharedHistory) -> Self {
        let next = BatchName { node: number, start: 0, writer: 0, number: 0 };
        Self { user: WATCHED[user], nodes, history, next }
    }

    pub(super) async fn run(mut self) {
        self.history.lock().begins();
        while !self.history.lock().has_ended(self.next.node) {
            // A lost connection is not a fault of the node.
            let _ = self.speak().await;
            self.next.start += 1;
            pause(PAUSE_MS).await;
        }
        self.history.lock().finishes();
    }

    /// Uses one connection.
    async fn speak(&mut self) -> io::Result<()> {
        let Some(mut session) = self.log_in().await? else { return Ok(()) };
        let until = Instant::now() + Duration::from_millis(below(STAYS_MS));
        while Instant::now() < until {
            let listens = Instant::now() + Duration::from_millis(below(LISTENS_MS));
            loop {
                let heard = time::timeout_at(listens, session.talk.next()).await;
                let Ok(said) = heard else { break };
                self.hear(&mut session, said?);
            }
            self.publish(&mut session).await?;
            self.check(&mut session);
        }
        Ok(())
    }

    async fn log_in(&mut self) -> io::Result<Option<Session>> {
        let node = u8::try_from(below(self.nodes.into())).expect("a small number") + 1;
        let secret = self.history.lock().access.password_of(self.user, below(1_000));
        let login = Login { user: self.user, secret };
        let inbox = format!("ack.{}.{}", self.next.node, self.next.start);
        let begun = self.history.lock().access.look(node);
        let wants = format!("SUB {inbox}.* 1\r\nSUB storm.> 2\r\n");
        let mut talk = Talk::open_at(node, Some(&login), &wants).await?;
        talk.bears_refusals = true;
        let (mut heard, mut may_not_hear) = (Vec::new(), false);
        let greeted = time::timeout(ANSWER_TIMEOUT, async {
            loop {
                match talk.next().await? {
                    Said::Pong => return Ok::<_, io::Error>(()),
                    Said::Refused(text) => may_not_hear |= text.contains("storm.>"),
                    said @ Said::Message(_) => heard.push(said),
                }
            }
        });
        let outcome = match greeted.await {
            Ok(Ok(())) => Outcome::LoggedIn,
            Ok(Err(error)) if error.to_string().contains("Authorization Violation") => Outcome::Refused,
            Ok(Err(_)) | Err(_) => Outcome::Lost,
        };
        judge_login(&self.history, node, &login, begun.as_ref(), outcome);
        if outcome == Outcome::Refused {
            self.history.lock().done(self.next.node);
        }
        let Some(begun) = begun.filter(|_| outcome == Outcome::LoggedIn) else { return Ok(None) };
        let settled = Look::settled(Some(&begun), self.history.lock().access.look(node));
        if may_not_hear && let Some(look) = settled {
            judge_answer(&self.history, &look, (self.user, None), Right::Subscribe, false);
        }
        let mut session =
            Session { talk, node, login, begun, overdue: Overdue::default(), deaf: None, inbox };
        heard.into_iter().for_each(|said| self.hear(&mut session, said));
        Ok(Some(session))
    }

    /// Publishes a message, and waits until the node has decided, and for its acknowledgement.
    async fn publish(&mut self, session: &mut Session) -> io::Result<()> {
        let name = self.next;
        self.next.number += 1;
        let (value, reply) = (name.to_string(), format!("{}.{}", session.inbox, name.number));
        let before = {
            let mut history = self.history.lock();
            history.offered(name);
            let look = history.access.look(session.node);
            if history.access.is_unwelcome(name, self.user, look.as_ref()) {
                history.count("a message with an unwelcome user was offered");
            }
            look
        };
        let text = format!("PUB storm.{} {reply} {}\r\n{value}\r\nPING\r\n", name.node, value.len());
        session.talk.say(&text).await?;
        let until = Instant::now() + ANSWER_TIMEOUT;
        let (mut is_refused, mut is_decided, mut fate) = (false, false, None);
        while !is_decided || (fate.is_none() && !is_refused) {
            match time::timeout_at(until, session.talk.next()).await.map_err(late)?? {
                Said::Pong => {
                    is_decided = true;
                    let after = self.history.lock().access.look(session.node);
                    if let Some(look) = Look::settled(before.as_ref(), after) {
                        let user = (self.user, None);
                        judge_answer(&self.history, &look, user, Right::Publish, !is_refused);
                    }
                }
                Said::Refused(text) if text.contains("for Publish") => is_refused = true,
                Said::Message(message) if message.subject == reply => {
                    // A message with headers means that nobody captured it.
                    fate = Some(message.payload.map_or(Told::Refused, |payload| told(&payload)));
                }
                said => self.hear(session, said),
            }
        }
        let fate = match fate {
            _ if is_refused => BatchFate::Refused,
            Some(Told::Stored(sequence)) => {
                BatchFate::Stored(Offset(i64::try_from(sequence).expect("a small number") - 1))
            }
            Some(Told::Refused) | None => BatchFate::Unknown,
        };
        let mut history = self.history.lock();
        history.told(name, fate);
        if is_refused {
            history.done(name.node);
        }
        Ok(())
    }

    /// Takes what the node says on its own.
    fn hear(&self, session: &mut Session, said: Said) {
        self.look(session);
        let mut history = self.history.lock();
        let message = match said {
            Said::Message(Message { payload: Some(payload), .. }) => payload,
            Said::Refused(text) => {
                if text.contains("for Subscription") {
                    history.count("a subscription was taken away");
                }
                return;
            }
            Said::Message(_) | Said::Pong => return,
        };
        let Some(name) = BatchName::parse(&message) else { return };
        if let Some((since, version)) = session.deaf
            && history.access.was_offered_after(&name, since)
        {
            let (user, node) = (self.user, session.node);
            history.found(format!(
                "{user} heard {name} on node {node}, which knew since {since:.3?} that it may not (version {version})"
            ));
        }
    }

    /// Notes whether the node knows that the user may hear nothing.
    fn look(&self, session: &mut Session) {
        let history = self.history.lock();
        let look = history.access.look(session.node).filter(|look| look.is_of(&session.begun));
        let denied = look.filter(|look| !may(&look.access, self.user, Right::Subscribe));
        session.deaf = denied.map(|look| {
            let version = look.access.version();
            // With a later version, it may have been allowed in between.
            let same = session.deaf.filter(|(_, known)| *known == version);
            (same.map_or(now(), |(since, _)| since), version)
        });
    }

    fn check(&self, session: &mut Session) {
        self.look(session);
        let mut history = self.history.lock();
        let Session { begun, node, login, overdue, .. } = session;
        let open = history.access.check_open(begun, *node, self.user, &login.secret, overdue);
        history.check(open);
    }
}
