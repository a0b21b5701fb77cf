//! Acknowledgements of captured messages: JetStream's, one per message, each to a subject of its own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::nats::client::{Received, new_inbox};
use serde::Deserialize;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::Output;

/// The acknowledgement of a publish.
#[derive(Debug, Deserialize)]
struct PubAck {
    stream: Option<String>,
    seq: Option<u64>,
    #[serde(default)]
    duplicate: bool,
    error: Option<AckError>,
}

#[derive(Debug, Deserialize)]
struct AckError {
    code: i64,
    #[serde(default)]
    err_code: i64,
    #[serde(default)]
    description: String,
}

/// A message without an acknowledgement so far.
#[derive(Debug)]
struct Waiting {
    subject: Vec<u8>,
    since: Instant,
}

/// Messages without an acknowledgement, by number, and the inbox for acknowledgements.
#[derive(Debug)]
pub(super) struct Acks {
    inbox: String,
    waiting: BTreeMap<u64, Waiting>,
    max: usize,
    timeout: Duration,
    output: Output,
    quiet: bool,
    pub(super) received: u64,
    /// Output that was not written yet.
    out: Vec<u8>,
}

impl Acks {
    pub(super) fn new(max: u32, timeout: Duration, output: Output, quiet: bool) -> Self {
        let max = max as usize;
        let (waiting, received, out) = (BTreeMap::new(), 0, Vec::new());
        Self { inbox: new_inbox(), waiting, max, timeout, output, quiet, received, out }
    }

    /// The subject to subscribe to.
    pub(super) fn pattern(&self) -> String {
        format!("{}.*", self.inbox)
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < self.max
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Records message `number` as in flight. Returns the subject for its acknowledgement.
    pub(super) fn expect(&mut self, number: u64, subject: Vec<u8>) -> String {
        self.waiting.insert(number, Waiting { subject, since: Instant::now() });
        format!("{}.{number}", self.inbox)
    }

    /// When the oldest message times out.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(_, waiting)| waiting.since + self.timeout)
    }

    /// The error once the deadline has passed.
    pub(super) fn late(&self) -> Failure {
        let subject = self.waiting.first_key_value().map_or(&b""[..], |(_, waiting)| &waiting.subject[..]);
        format!(
            "the message to '{}' was not acknowledged within {:?}: there is a subscriber, but perhaps no topic captures the subject (tailrace.subjects)",
            String::from_utf8_lossy(subject),
            self.timeout,
        )
        .into()
    }

    /// Handles an acknowledgement.
    pub(super) fn take(&mut self, answer: &Received) -> Result<(), Failure> {
        let text = String::from_utf8_lossy(answer.subject());
        let number = text.rsplit('.').next().and_then(|number| number.parse::<u64>().ok());
        let Some(waiting) = number.and_then(|number| self.waiting.remove(&number)) else { return Ok(()) };
        let subject = String::from_utf8_lossy(&waiting.subject).into_owned();
        if answer.says_no_responders() {
            return Err(format!(
                "no topic stores messages to '{subject}', and it has no subscribers; bind one with `tailrace topic create NAME --subjects {subject}`"
            )
            .into());
        }
        let ack: PubAck = serde_json::from_slice(answer.payload()).map_err(|_| not_an_ack(&subject))?;
        match ack {
            PubAck { error: Some(error), .. } => Err(format!(
                "the message to '{subject}' was not stored: {} ({}, {})",
                error.description, error.code, error.err_code
            )
            .into()),
            PubAck { stream: Some(stream), seq: Some(seq), duplicate, .. } => {
                self.received += 1;
                self.show(&subject, &stream, seq, duplicate);
                Ok(())
            }
            PubAck { .. } => Err(not_an_ack(&subject)),
        }
    }

    fn show(&mut self, subject: &str, stream: &str, seq: u64, duplicate: bool) {
        let line = match self.output {
            _ if self.quiet => return,
            Output::Json => {
                serde_json::json!({ "subject": subject, "stream": stream, "seq": seq, "duplicate": duplicate })
                    .to_string()
            }
            Output::Text if duplicate => format!("stored earlier in {stream}, sequence {seq}"),
            Output::Text => format!("stored in {stream}, sequence {seq}"),
        };
        self.out.extend_from_slice(line.as_bytes());
        self.out.push(b'\n');
    }

    /// Writes the pending output.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        use std::io::Write as _;
        if !self.out.is_empty() {
            let mut out = std::io::stdout().lock();
            out.write_all(&self.out)?;
            out.flush()?;
            self.out.clear();
        }
        Ok(())
    }
}

fn not_an_ack(subject: &str) -> Failure {
    format!("the reply to the message to '{subject}' is not a topic's acknowledgement; does another program reply there?").into()
}
