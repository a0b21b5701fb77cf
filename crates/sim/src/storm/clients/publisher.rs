//! Publishes messages that are captured, one after the other, and waits for the acknowledgement of each.

use std::io;

use tailrace_env::time;
use tailrace_types::Offset;

use super::client::pause;
use super::nats::{ANSWER_TIMEOUT, DIAL_PAUSE, Message, Said, Talk, late};
use super::sasl::Login;
use super::subscriber::Interest;
use crate::storm::history::{BatchFate, BatchName, Phase, SharedHistory};

pub(super) struct Publisher {
    /// The next message to publish.
    next: BatchName,
    nodes: u8,
    /// How many nodes have acknowledged a message since the end began. They are asked one after the other.
    visited: u8,
    history: SharedHistory,
}

/// The answer to a message.
pub(super) enum Told {
    Stored(u64),
    Refused,
}

impl Publisher {
    /// `number` identifies the client in the history, after the nodes.
    pub(super) fn new(number: usize, nodes: u8, history: SharedHistory) -> Self {
        let next = BatchName { node: number, start: 0, writer: 0, number: 0 };
        Self { next, nodes, visited: 0, history }
    }

    pub(super) async fn run(mut self) {
        self.history.lock().begins();
        while !self.has_ended() {
            // A lost connection is not a fault of the node.
            let _ = self.speak().await;
            self.next.start += 1;
            time::sleep(DIAL_PAUSE).await;
        }
        self.history.lock().finishes();
    }

    fn has_ended(&self) -> bool {
        self.visited >= self.nodes && self.history.lock().has_ended(self.next.node)
    }

    /// Uses one connection until it is lost, or is silent for too long.
    async fn speak(&mut self) -> io::Result<()> {
        // Each connection has its own inbox.
        let inbox = format!("ack.{}.{}", self.next.node, self.next.start);
        let wants = format!("SUB {inbox}.* 1\r\n");
        // At the end, each node is asked.
        let is_visit = self.history.lock().phase() == Phase::Ending;
        let mut talk = if is_visit {
            let login = Login::of_clients(&self.history);
            Talk::open_at(self.visited % self.nodes + 1, login.as_ref(), &wants).await?
        } else {
            Talk::open(self.nodes, &wants, &self.history).await?
        };
        while !self.has_ended() {
            let name = self.next;
            self.next.number += 1;
            let value = name.to_string();
            let is_heard = self.history.lock().phase() == Phase::Ending;
            self.history.lock().offered(name);
            let reply = format!("{inbox}.{}", name.number);
            talk.say(&format!("PUB storm.{} {reply} {}\r\n{value}\r\n", name.node, value.len())).await?;
            let told = time::timeout(ANSWER_TIMEOUT, acknowledgement(&mut talk, &reply)).await;
            let fate = match told.map_err(late)?? {
                Told::Stored(sequence) => {
                    BatchFate::Stored(Offset(i64::try_from(sequence).expect("a small number") - 1))
                }
                // The message may be stored all the same. The text of the refusal is for people.
                Told::Refused => BatchFate::Unknown,
            };
            self.history.lock().told(name, fate.clone());
            if is_heard {
                let hear = [Interest::Messages, Interest::Queue].map(Interest::name);
                self.history.lock().published(&value, &hear);
                if matches!(fate, BatchFate::Stored(_)) {
                    self.visited = self.visited.saturating_add(is_visit.into());
                    return Ok(());
                }
            }
            pause(100).await;
        }
        Ok(())
    }
}

/// Returns the answer on `reply`. Skips everything before it.
async fn acknowledgement(talk: &mut Talk, reply: &str) -> io::Result<Told> {
    loop {
        if let Said::Message(Message { subject, payload, .. }) = talk.next().await?
            && subject == reply
        {
            // A message with headers means that nobody captured it, because the topic does not exist yet.
            return Ok(payload.map_or(Told::Refused, |payload| told(&payload)));
        }
    }
}

/// `{"stream":"storm","seq":17}`, or an error.
pub(super) fn told(payload: &[u8]) -> Told {
    let text = String::from_utf8_lossy(payload);
    let digits = text.split_once("\"seq\":").map(|(_, rest)| rest.trim_end_matches('}'));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(sequence) if sequence > 0 && !text.contains("\"error\"") => Told::Stored(sequence),
        _ => Told::Refused,
    }
}
