//! A connection that speaks the NATS protocol.

use std::io;

use tailrace_env::io::{AsyncReadExt, AsyncWriteExt};
use tailrace_env::net::{self, Stream};
use tailrace_env::time::{self, Duration};
use tracing::debug;

use super::client::below;
use super::sasl::Login;
use crate::storm::history::SharedHistory;
use crate::storm::site::nats_address;

/// The longest wait for an answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause between two attempts to reach a node.
pub(super) const DIAL_PAUSE: Duration = Duration::from_millis(100);

/// After this much silence a listener sends a PING to the node.
const IDLE: Duration = Duration::from_millis(300);

/// Number of unanswered PINGs in a row after which the node is given up.
const SILENT_MAX: u32 = 10;

/// Maximum length of a line, in bytes.
const LINE_BYTES_MAX: usize = 4096;

const OPTIONS: &str = "\"verbose\":false,\"no_responders\":true,\"headers\":true";

pub(super) struct Talk {
    stream: Stream,
    input: Vec<u8>,
    /// How many PINGs the node was sent since it last sent something.
    unanswered: u32,
    /// Refusals by the rules are told. Otherwise they end the connection.
    pub(super) bears_refusals: bool,
}

/// A protocol message from a node.
#[derive(Debug)]
pub(super) enum Said {
    Message(Message),
    Pong,
    /// The rules do not let the client do something.
    Refused(String),
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) subject: String,
    /// The reply subject.
    pub(super) reply: Option<String>,
    /// `None` if the message has headers, which only the node's own messages have here.
    pub(super) payload: Option<Vec<u8>>,
}

enum Took {
    Said(Said),
    Ping,
    Nothing,
}

impl Talk {
    /// Connects to some node and sends what it `wants`.
    pub(super) async fn open(nodes: u8, wants: &str, history: &SharedHistory) -> io::Result<Self> {
        let node = u8::try_from(below(nodes.into())).expect("a small number") + 1;
        Self::open_at(node, Login::of_clients(history).as_ref(), wants).await
    }

    /// Connects to a node and sends what it `wants`.
    pub(super) async fn open_at(node: u8, login: Option<&Login>, wants: &str) -> io::Result<Self> {
        let stream =
            time::timeout(ANSWER_TIMEOUT, net::connect(&nats_address(node))).await.map_err(late)??;
        let mut talk = Self { stream, input: Vec::new(), unanswered: 0, bears_refusals: false };
        let login = login.map(Login::options).unwrap_or_default();
        talk.say(&format!("CONNECT {{{OPTIONS}{login}}}\r\n{wants}PING\r\n")).await?;
        Ok(talk)
    }

    pub(super) async fn say(&mut self, text: &str) -> io::Result<()> {
        debug!(text, "a client says");
        self.stream.write_all(text.as_bytes()).await
    }

    /// Returns the node's next message, and answers PINGs on the way. Nothing is lost if this future is
    /// dropped.
    pub(super) async fn next(&mut self) -> io::Result<Said> {
        loop {
            match self.take()? {
                Some(Took::Said(said)) => {
                    debug!(?said, "a client hears");
                    return Ok(said);
                }
                Some(Took::Ping) => self.say("PONG\r\n").await?,
                Some(Took::Nothing) => {}
                None => self.more().await?,
            }
        }
    }

    /// Returns what comes within [`IDLE`]. If nothing does, sends a PING and returns `None`. A node that lost
    /// its power does not say so, so this fails once a node leaves too many PINGs unanswered.
    pub(super) async fn next_soon(&mut self) -> io::Result<Option<Said>> {
        match time::timeout(IDLE, self.next()).await {
            Ok(said) => {
                self.unanswered = 0;
                said.map(Some)
            }
            Err(_) if self.unanswered == SILENT_MAX => Err(late(())),
            Err(_) => {
                self.unanswered += 1;
                self.say("PING\r\n").await?;
                Ok(None)
            }
        }
    }

    /// Takes one complete operation from the input.
    fn take(&mut self) -> io::Result<Option<Took>> {
        let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") else {
            let is_long = self.input.len() > LINE_BYTES_MAX;
            return if is_long { Err(io::ErrorKind::InvalidData.into()) } else { Ok(None) };
        };
        let line = String::from_utf8_lossy(&self.input[..end]).into_owned();
        let mut words = line.split(' ');
        let (mut all, verb) = (end + 2, words.next().unwrap_or_default());
        let took = match verb {
            "PING" => Took::Ping,
            "PONG" => Took::Said(Said::Pong),
            "-ERR" if self.bears_refusals && line.contains("Permissions Violation") => {
                Took::Said(Said::Refused(line))
            }
            "-ERR" => return Err(io::Error::other(line)),
            "MSG" | "HMSG" => {
                let subject = words.next().unwrap_or_default().to_owned();
                let bytes: usize = words.next_back().and_then(|word| word.parse().ok()).unwrap_or(0);
                // What is left of a MSG line is the subscription id and perhaps a reply subject.
                let reply = words.nth(1).map(str::to_owned);
                let Some(payload) = self.input.get(all..all + bytes + 2) else { return Ok(None) };
                let payload = (verb == "MSG").then(|| payload[..bytes].to_vec());
                all += bytes + 2;
                Took::Said(Said::Message(Message { subject, reply, payload }))
            }
            _ => Took::Nothing,
        };
        self.input.drain(..all);
        Ok(Some(took))
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

pub(super) fn late(_: impl std::fmt::Debug) -> io::Error {
    io::ErrorKind::TimedOut.into()
}
