//! NATS requests: a client that sends them, and members of a queue group that answer.

use std::collections::BTreeSet;
use std::io;

use tailrace_env::time::{self, Duration};

use super::client::{below, pause};
use super::nats::{ANSWER_TIMEOUT, DIAL_PAUSE, Message, Said, Talk};
use crate::storm::history::{Phase, SharedHistory};

/// An answerer moves to another node after this time at the latest.
const STAYS_MS: u64 = 3_000;

pub(super) struct Asker {
    number: usize,
    /// The number of this connection. Answers to an earlier connection do not reach this one.
    start: u32,
    nodes: u8,
    history: SharedHistory,
}

impl Asker {
    /// `number` identifies the client in the history, after the nodes.
    pub(super) fn new(number: usize, nodes: u8, history: SharedHistory) -> Self {
        Self { number, start: 0, nodes, history }
    }

    pub(super) async fn run(mut self) {
        self.history.lock().begins();
        while !self.has_ended() {
            // A lost connection is not a fault of the node.
            let _ = self.speak().await;
            self.start += 1;
            time::sleep(DIAL_PAUSE).await;
        }
        self.history.lock().finishes();
    }

    fn has_ended(&self) -> bool {
        self.history.lock().has_ended(self.number)
    }

    /// Uses one connection until it is lost, or a request has no answer.
    async fn speak(&mut self) -> io::Result<()> {
        let inbox = format!("answer.{}.{}", self.number, self.start);
        let mut talk = Talk::open(self.nodes, &format!("SUB {inbox}.* 1\r\n"), &self.history).await?;
        let mut answers = Answers { asked: BTreeSet::new(), answered: BTreeSet::new() };
        let mut requests = 0_u32;
        while !self.has_ended() {
            requests += 1;
            let reply = format!("{inbox}.{requests}");
            let has_to_be_answered = self.history.lock().phase() == Phase::Ending;
            // The payload names the reply subject, so that a wrong answer shows.
            talk.say(&format!("PUB ask.{} {reply} {}\r\n{reply}\r\n", self.number, reply.len())).await?;
            answers.asked.insert(reply.clone());
            let answer = time::timeout(ANSWER_TIMEOUT, answers.wait(&mut talk, &reply, &self.history)).await;
            let is_answered = answer.map_or(Ok(false), |answer| answer)?;
            self.tell(&reply, is_answered, has_to_be_answered);
            pause(150).await;
        }
        Ok(())
    }

    /// Records what became of a request.
    fn tell(&self, reply: &str, is_answered: bool, has_to_be_answered: bool) {
        let mut history = self.history.lock();
        history.count(if is_answered { "a request was answered" } else { "a request had no answer" });
        if is_answered {
            history.done(self.number);
        } else if has_to_be_answered {
            history.found(format!("the request with {reply} had no answer"));
        }
    }
}

/// Answers to the requests of one connection.
struct Answers {
    asked: BTreeSet<String>,
    answered: BTreeSet<String>,
}

impl Answers {
    /// Waits for the answer to one request. Returns false if the node reports no responders.
    async fn wait(&mut self, talk: &mut Talk, reply: &str, history: &SharedHistory) -> io::Result<bool> {
        loop {
            let Said::Message(message) = talk.next().await? else { continue };
            let is_awaited = message.subject == reply;
            let Some(payload) = message.payload else {
                if is_awaited {
                    return Ok(false);
                }
                continue;
            };
            let payload = String::from_utf8_lossy(&payload).into_owned();
            let mut history = history.lock();
            if payload != message.subject || !self.asked.contains(&payload) {
                history.found(format!("the answer to {payload} came to {}", message.subject));
            }
            if !self.answered.insert(payload) {
                history.found(format!("the request with {} was answered twice", message.subject));
            }
            if is_awaited {
                return Ok(true);
            }
        }
    }
}

/// A client that answers requests.
pub(super) struct Answerer {
    number: usize,
    nodes: u8,
    history: SharedHistory,
}

impl Answerer {
    pub(super) fn new(number: usize, nodes: u8, history: SharedHistory) -> Self {
        Self { number, nodes, history }
    }

    pub(super) async fn run(self) {
        loop {
            // A lost connection is not a fault of the node.
            let _ = self.serve().await;
            self.history.lock().listens(self.number, false);
            time::sleep(DIAL_PAUSE).await;
        }
    }

    /// Uses one connection until it is lost, or it is time to move.
    async fn serve(&self) -> io::Result<()> {
        let mut talk = Talk::open(self.nodes, "SUB ask.> answerers 1\r\n", &self.history).await?;
        let until = time::Instant::now() + Duration::from_millis(below(STAYS_MS));
        loop {
            match talk.next_soon().await? {
                Some(Said::Refused(_)) => {}
                Some(Said::Message(Message { payload: Some(payload), reply: Some(reply), .. })) => {
                    let payload = String::from_utf8_lossy(&payload);
                    talk.say(&format!("PUB {reply} {}\r\n{payload}\r\n", payload.len())).await?;
                }
                Some(Said::Pong) => self.history.lock().listens(self.number, true),
                Some(Said::Message(_)) | None => {}
            }
            if time::Instant::now() >= until && self.history.lock().phase() == Phase::Storm {
                return Ok(());
            }
        }
    }
}
