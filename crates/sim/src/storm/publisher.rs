//! Speaks NATS to whichever node it reaches: publishes what is captured, one message after the other, and waits for the acknowledgement.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tailrace_env::io::{AsyncReadExt, AsyncWriteExt};
use tailrace_env::net::{self, Stream};
use tailrace_env::random;
use tailrace_env::time::{self, Duration};
use tailrace_types::Offset;

use super::history::{BatchFate, BatchName, History};
use super::site::nats_address;

/// How long an acknowledgement is waited for, at most.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two tries to reach a node.
const DIAL_PAUSE: Duration = Duration::from_millis(100);

/// Most bytes of one line.
const LINE_BYTES_MAX: usize = 4096;

pub(super) struct Publisher {
    /// Its next message.
    next: BatchName,
    nodes: u8,
    history: Arc<Mutex<History>>,
}

/// What became of a message.
enum Told {
    Stored(u64),
    Refused,
}

impl Publisher {
    /// `number`: in the history it counts as a node of its own, behind the others.
    pub(super) fn new(number: usize, nodes: u8, history: Arc<Mutex<History>>) -> Self {
        Self { next: BatchName { node: number, start: 0, writer: 0, number: 0 }, nodes, history }
    }

    pub(super) async fn run(mut self) {
        while !self.has_ended() {
            // A connection that is lost is no fault of the node.
            let _ = self.speak().await;
            self.next.start += 1;
            time::sleep(DIAL_PAUSE).await;
        }
    }

    fn has_ended(&self) -> bool {
        lock(&self.history).has_ended(self.next.node)
    }

    /// One connection, until it is lost, or nothing is heard for too long.
    async fn speak(&mut self) -> io::Result<()> {
        let node = u8::try_from(random::u64() % u64::from(self.nodes)).expect("there are few") + 1;
        let stream = time::timeout(PATIENCE, net::connect(&nats_address(node))).await.map_err(late)??;
        let mut talk = Talk { stream, input: Vec::new() };
        // Others have inboxes of their own.
        let inbox = format!("ack.{}.{}", self.next.node, self.next.start);
        let options = "{\"verbose\":false,\"no_responders\":true,\"headers\":true}";
        let hello = format!("CONNECT {options}\r\nSUB {inbox}.* 1\r\nPING\r\n");
        talk.stream.write_all(hello.as_bytes()).await?;
        while !self.has_ended() {
            let name = self.next;
            self.next.number += 1;
            let value = name.to_string();
            lock(&self.history).offered(name);
            let reply = format!("{inbox}.{}", name.number);
            let message = format!("PUB storm.{} {reply} {}\r\n{value}\r\n", name.node, value.len());
            talk.stream.write_all(message.as_bytes()).await?;
            let told = time::timeout(PATIENCE, talk.acknowledgement(&reply)).await.map_err(late)??;
            let fate = match told {
                Told::Stored(sequence) => {
                    BatchFate::Stored(Offset(i64::try_from(sequence).expect("it is small") - 1))
                }
                // It may be stored all the same: the words of the refusal are for people.
                Told::Refused => BatchFate::Unknown,
            };
            lock(&self.history).told(name, fate);
            time::sleep(Duration::from_micros(random::u64() % 50_000)).await;
        }
        Ok(())
    }
}

fn late(_: impl std::fmt::Debug) -> io::Error {
    io::ErrorKind::TimedOut.into()
}

struct Talk {
    stream: Stream,
    input: Vec<u8>,
}

impl Talk {
    /// What is said to `reply`. Everything before it is passed over.
    async fn acknowledgement(&mut self, reply: &str) -> io::Result<Told> {
        loop {
            let line = self.line().await?;
            let mut words = line.split(' ');
            match words.next() {
                Some("PING") => self.stream.write_all(b"PONG\r\n").await?,
                Some("-ERR") => return Err(io::Error::other(line)),
                Some(verb @ ("MSG" | "HMSG")) => {
                    let is_bare = verb == "MSG";
                    let subject = words.next().unwrap_or_default().to_owned();
                    let bytes: usize = words.next_back().and_then(|word| word.parse().ok()).unwrap_or(0);
                    let payload = self.payload(bytes).await?;
                    if subject == reply {
                        // With headers: nobody took it, since the topic is not there yet.
                        return Ok(if is_bare { told(&payload) } else { Told::Refused });
                    }
                }
                _ => {}
            }
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8_lossy(&self.input[..end]).into_owned();
                self.input.drain(..end + 2);
                return Ok(line);
            }
            if self.input.len() > LINE_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.more().await?;
        }
    }

    async fn payload(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        while self.input.len() < bytes + 2 {
            self.more().await?;
        }
        let payload = self.input[..bytes].to_vec();
        self.input.drain(..bytes + 2);
        Ok(payload)
    }

    async fn more(&mut self) -> io::Result<()> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.input.extend_from_slice(&bytes[..read]);
                Ok(())
            }
        }
    }
}

/// `{"stream":"storm","seq":17}`, or an error.
fn told(payload: &[u8]) -> Told {
    let text = String::from_utf8_lossy(payload);
    let digits = text.split_once("\"seq\":").map(|(_, rest)| rest.trim_end_matches('}'));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(sequence) if sequence > 0 && !text.contains("\"error\"") => Told::Stored(sequence),
        _ => Told::Refused,
    }
}

fn lock(history: &Mutex<History>) -> std::sync::MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}
