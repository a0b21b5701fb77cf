//! A NATS client whose user has a small quota. Its messages are held up, and none is lost.

use std::io;

use tailrace_env::time::{self, Duration, Instant};
use tailrace_types::Offset;

use super::client::{below, pause};
use super::nats::{Message, Said, Talk, late};
use super::publisher::{Told, told};
use super::sasl::Login;
use crate::storm::access::{SLOW, Secret};
use crate::storm::history::{BatchFate, BatchName, Phase, SharedHistory};

/// The longest wait for the acknowledgements of some messages. The quota lets one pass in about a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two connections. What an earlier one has sent counts against the quota, too.
const BETWEEN: Duration = Duration::from_secs(2);

/// Messages that are sent one right after the other.
const MESSAGES: u64 = 3;

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
        let (begun, mut text, mut awaited) = (Instant::now(), String::new(), Vec::new());
        for _ in 0..MESSAGES {
            let value = next.to_string();
            history.lock().offered(*next);
            text +=
                &format!("PUB storm.{} {inbox}.{} {}\r\n{value}\r\n", next.node, next.number, value.len());
            awaited.push(*next);
            next.number += 1;
        }
        talk.say(&text).await?;
        while !awaited.is_empty() {
            let heard = time::timeout_at(begun + PATIENCE, talk.next()).await;
            if heard.is_err() && is_calm {
                history.lock().found(format!("{awaited:?} of a user with a quota were lost"));
            }
            let Said::Message(Message { subject, payload, .. }) = heard.map_err(late)?? else { continue };
            let Some(at) = awaited.iter().position(|name| subject == format!("{inbox}.{}", name.number))
            else {
                continue;
            };
            let name = awaited.remove(at);
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
    }
    Ok(())
}
