//! A NATS subscriber that reads nothing while more is published to it than its node keeps for one client.
//! Whatever it reads then must be a part of that, in order. The node ends its connection, or has room for all
//! of it in time. Nobody else must notice any of this.

use std::io;

use tailrace_env::time::{self, Duration};

use super::client::pause;
use super::nats::{ANSWER_TIMEOUT, DIAL_PAUSE, Said, Talk, late};
use crate::storm::history::{Phase, SharedHistory};

/// The messages of a round, and the bytes of each. Together they are more than a connection in the network
/// holds, and what the node keeps besides.
const MESSAGES: usize = 60;
const MESSAGE_BYTES: usize = 2_000;

/// The node slows the publisher down for so long at most before it ends the connection of the other.
const SLOWED: Duration = Duration::from_secs(10);

/// Pause between two rounds.
const PAUSE_MS: u64 = 1_500;

pub(super) async fn run(number: usize, nodes: u8, history: SharedHistory) {
    let mut round = 0;
    while history.lock().phase() < Phase::Leaving {
        // A lost connection is not a fault of the node.
        let _ = hoard(&format!("hoard.{number}.{round}"), nodes, &history).await;
        round += 1;
        pause(PAUSE_MS).await;
        time::sleep(DIAL_PAUSE).await;
    }
}

/// Plays one round.
async fn hoard(subject: &str, nodes: u8, history: &SharedHistory) -> io::Result<()> {
    let mut hoarder = Talk::open(nodes, &format!("SUB {subject} 1\r\n"), history).await?;
    answered(&mut hoarder, ANSWER_TIMEOUT).await?;
    let mut publisher = Talk::open(nodes, "", history).await?;
    answered(&mut publisher, ANSWER_TIMEOUT).await?;
    time::timeout(SLOWED, publish(&mut publisher, subject)).await.map_err(late)??;
    read(&mut hoarder, subject, history).await
}

async fn publish(publisher: &mut Talk, subject: &str) -> io::Result<()> {
    for number in 0..MESSAGES {
        let text = format!("{number:0MESSAGE_BYTES$}");
        publisher.say(&format!("PUB {subject} {MESSAGE_BYTES}\r\n{text}\r\n")).await?;
    }
    publisher.say("PING\r\n").await?;
    answered(publisher, SLOWED).await
}

/// Reads what is there.
async fn read(hoarder: &mut Talk, subject: &str, history: &SharedHistory) -> io::Result<()> {
    let mut last = None;
    loop {
        let said = match time::timeout(ANSWER_TIMEOUT, hoarder.next()).await.map_err(late)? {
            Ok(said) => said,
            Err(error) => {
                if error.to_string().contains("Slow Consumer") || error.kind() == io::ErrorKind::UnexpectedEof
                {
                    history.lock().count("a subscriber that did not read was disconnected");
                }
                return Err(error);
            }
        };
        let Said::Message(message) = said else { continue };
        let number = message
            .payload
            .filter(|payload| payload.len() == MESSAGE_BYTES)
            .and_then(|payload| String::from_utf8(payload).ok()?.parse::<usize>().ok());
        if number.is_none() || number <= last {
            history.lock().found(format!("after {last:?}, {subject} brought {number:?}"));
        }
        last = number;
        if last == Some(MESSAGES - 1) {
            return Ok(());
        }
    }
}

/// Waits for the answer to a PING.
async fn answered(talk: &mut Talk, within: Duration) -> io::Result<()> {
    let answer = async {
        while !matches!(talk.next().await?, Said::Pong) {}
        Ok(())
    };
    time::timeout(within, answer).await.map_err(late)?
}
