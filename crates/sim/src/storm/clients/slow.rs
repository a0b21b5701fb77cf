//! A NATS client whose user has a small quota. Its messages are held up, and none is lost.

use std::io;

use tailrace_env::time::{self, Duration, Instant};
use tailrace_types::Offset;

use super::client::{below, pause};
use super::nats::{Said, Talk, late};
use super::publisher::{Told, told};
use super::sasl::Login;
use crate::storm::access::{SLOW, Secret};
use crate::storm::history::{BatchFate, BatchName, Phase, SharedHistory};

/// The longest wait for the acknowledgement of a message. The quota lets one pass in about a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two connections. What an earlier one has sent counts against the quota, too.
const BETWEEN: Duration = Duration::from_secs(2);

/// A message that is acknowledged later than this was held up.
const QUICK: Duration = Duration::from_millis(900);

/// `number` identifies the client in the history, after the nodes.
pub(super) async fn run(number: usize, nodes: u8, history: SharedHistory) {
    history.lock().begins();
    let mut next = BatchName { node: number, start: 0, writer: 0, number: 0 };
    while !history.lock().has_ended(number) {
        // A lost connection is not a fault of the node.
        let _ = speak(&mut next, nodes, &history).await;
        next.start += 1;
        time::sleep(BETWEEN).await;
    }
    history.lock().finishes();
}

/// Uses one connection until it is lost, or is silent for too long.
async fn speak(next: &mut BatchName, nodes: u8, history: &SharedHistory) -> io::Result<()> {
    let inbox = format!("ack.{}.{}", next.node, next.start);
    let login = Login { user: SLOW, secret: Secret::Password(0) };
    let node = u8::try_from(below(nodes.into())).expect("a small number") + 1;
    let mut talk = Talk::open_at(node, Some(&login), &format!("SUB {inbox}.* 1\r\n")).await?;
    while !history.lock().has_ended(next.node) {
        pause(500).await;
        let is_calm = history.lock().phase() >= Phase::Settling;
        // One at a time: messages that wait for the quota together would become one batch.
        let (begun, name, value) = (Instant::now(), *next, next.to_string());
        next.number += 1;
        history.lock().offered(name);
        let subject = format!("{inbox}.{}", name.number);
        talk.say(&format!("PUB storm.{} {subject} {}\r\n{value}\r\n", name.node, value.len())).await?;
        let payload = loop {
            let heard = time::timeout_at(begun + PATIENCE, talk.next()).await;
            if heard.is_err() && is_calm {
                history.lock().found(format!("{name} of a user with a quota was lost"));
            }
            match heard.map_err(late)?? {
                Said::Message(message) if message.subject == subject => break message.payload,
                _ => {}
            }
        };
        let fate = match payload.map(|payload| told(&payload)) {
            Some(Told::Stored(sequence)) => {
                BatchFate::Stored(Offset(i64::try_from(sequence).expect("a small number") - 1))
            }
            Some(Told::Refused) | None => BatchFate::Unknown,
        };
        let mut history = history.lock();
        history.told(name, fate);
        if begun.elapsed() > QUICK {
            history.count("a message was held up for a quota");
        }
    }
    Ok(())
}
