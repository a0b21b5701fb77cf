//! `tailrace pub`: publishes the command line's data or standard input to a subject.
//!
//! One task sends and reads in turn, so that it sees errors, acknowledgements and PINGs while it publishes.
//! Standard input has a thread of its own ([`input`]). Bounded buffers between the two slow the reader down
//! to the server's pace. A broken connection ends the verb: messages sent before may or may not have arrived.

mod acks;
mod arguments;
mod input;

use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use tailrace_cli::failure::{self, Failure};
use tailrace_cli::output::{Output, print_json};
use tailrace_cli::text::units;

use crate::client::block_on;
use crate::interrupt::{FINISH, Interrupt, Stop, ended};

use super::client::{Connection, Incoming, NatsError};
use acks::Acks;
use arguments::Envelope;
pub(crate) use arguments::PublishArguments;
use input::{Next, Source};

/// Most messages added to the buffer between two looks at the socket.
const BURST: u32 = 512;
/// Time between two progress lines.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

pub(crate) fn run(arguments: &PublishArguments) -> Result<ExitCode, Failure> {
    let envelope = arguments.envelope()?;
    block_on(async {
        let connection = arguments.connect.open().await?;
        if envelope.header_bytes() > 0 && !connection.info().headers {
            return Err("the server does not support headers".into());
        }
        let source =
            arguments.source(connection.info().max_payload.saturating_sub(envelope.header_bytes()))?;
        let mut interrupt = Interrupt::install(FINISH)?;
        let mut publisher = Publisher::new(connection, envelope, source, arguments);
        let result = tokio::select! {
            result = publisher.run() => result.map(|()| End::Complete),
            stop = interrupt.wait() => Ok(End::Stopped(stop)),
        };
        publisher.finish(arguments, result)
    })
}

/// How the verb ended, other than with a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    /// A signal came before everything was published.
    Stopped(Stop),
}

struct Publisher {
    connection: Connection,
    envelope: Envelope,
    source: Source,
    acks: Option<Acks>,
    rate: Option<f64>,
    timeout: Duration,
    /// Standard error is a terminal.
    shows_progress: bool,
    /// A progress line is on the screen, for the next one to overwrite.
    line_is_there: bool,
    started: Instant,
    messages: u64,
    bytes: u64,
}

impl Publisher {
    fn new(connection: Connection, envelope: Envelope, source: Source, arguments: &PublishArguments) -> Self {
        let timeout = arguments.connect.timeout;
        let acks = || Acks::new(arguments.in_flight, timeout, arguments.output, arguments.quiet);
        Self {
            connection,
            envelope,
            source,
            acks: arguments.ack.then(acks),
            rate: arguments.rate,
            timeout,
            shows_progress: !arguments.quiet && std::io::stderr().is_terminal(),
            line_is_there: false,
            started: Instant::now(),
            messages: 0,
            bytes: 0,
        }
    }

    async fn run(&mut self) -> Result<(), Failure> {
        if let Some(acks) = &self.acks {
            self.connection.subscribe(acks.pattern().as_bytes(), None, 1);
        }
        let mut ended = false;
        let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
        ticks.reset();
        loop {
            self.take_what_arrived()?;
            ended = ended || self.publish_some()?;
            if ended && self.acks.as_ref().is_none_or(Acks::is_empty) {
                return self.confirm().await;
            }
            let due = self.due().filter(|_| !ended);
            let waits = !ended && self.source.waits();
            let late = self.acks.as_ref().and_then(Acks::deadline);
            tokio::select! {
                driven = self.connection.drive() => driven?,
                read = self.source.wait(), if waits => read?,
                () = wait_until(due), if due.is_some() => {}
                () = wait_until(late), if late.is_some() => return Err(self.late()),
                _ = ticks.tick(), if self.shows_progress => self.show_progress(),
            }
        }
    }

    /// When the next message is due. `None` if there is no rate.
    fn due(&self) -> Option<Instant> {
        let rate = self.rate?;
        Some(self.started + Duration::from_secs_f64(self.messages as f64 / rate))
            .filter(|_| self.has_room() && !self.source.waits())
    }

    fn has_room(&self) -> bool {
        self.connection.has_room() && self.acks.as_ref().is_none_or(Acks::has_room)
    }

    /// Adds messages to the buffer while there are messages and room. Returns true at the end of the input.
    fn publish_some(&mut self) -> Result<bool, Failure> {
        for _ in 0..BURST {
            if !self.has_room() || self.due().is_some_and(|due| due > Instant::now()) {
                return Ok(false);
            }
            match self.source.next() {
                Next::Message(payload) => self.publish(&payload)?,
                Next::Later => return Ok(false),
                Next::End => return Ok(true),
            }
        }
        Ok(false)
    }

    fn publish(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let bytes = payload.len() + self.envelope.header_bytes();
        let max = self.connection.info().max_payload;
        if bytes > max {
            return Err(format!(
                "message {} has {bytes} bytes, headers included; the server accepts {max} at most",
                self.messages + 1
            )
            .into());
        }
        self.messages += 1;
        self.bytes += payload.len() as u64;
        let subject = self.envelope.subject(self.messages);
        let inbox = self.acks.as_mut().map(|acks| acks.expect(self.messages, subject.clone()));
        let inbox = inbox.as_ref().map(|inbox| inbox.as_bytes());
        self.connection.publish(&self.envelope.message(&subject, inbox, payload));
        Ok(())
    }

    fn take_what_arrived(&mut self) -> Result<(), Failure> {
        while let Some(incoming) = self.connection.take()? {
            self.take(incoming)?;
        }
        self.acks.as_mut().map_or(Ok(()), Acks::flush)
    }

    fn take(&mut self, incoming: Incoming) -> Result<(), Failure> {
        match (incoming, &mut self.acks) {
            (Incoming::Error(text), _) => Err(NatsError::Server { text }.into()),
            (Incoming::Message(answer), Some(acks)) => acks.take(&answer),
            (Incoming::Message(_) | Incoming::Pong | Incoming::LameDuck, _) => Ok(()),
        }
    }

    fn show_progress(&mut self) {
        let rate = self.messages as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
        let (messages, bytes) = (units::count(self.messages as f64), units::bytes(self.bytes as f64));
        // A write error on standard error does not matter.
        let _ = write!(
            std::io::stderr(),
            "\r{messages} messages, {bytes}, {} messages/s\x1b[K",
            units::count(rate)
        );
        self.line_is_there = true;
    }

    fn late(&self) -> Failure {
        self.acks.as_ref().map_or_else(|| "no acknowledgement came".into(), Acks::late)
    }

    /// Waits until the server has read everything. An error about any message comes before the PONG.
    async fn confirm(&mut self) -> Result<(), Failure> {
        self.connection.ping();
        let mut last_progress = Instant::now();
        loop {
            let unsent = !self.connection.is_sent();
            let deadline = Some(last_progress + self.timeout);
            tokio::select! {
                driven = self.connection.drive() => driven?,
                () = wait_until(deadline) => {
                    let (what, timeout) = ("the server has not read everything", self.timeout);
                    return Err(NatsError::Timeout { what, timeout }.into());
                }
            }
            if unsent {
                last_progress = Instant::now();
            }
            while let Some(incoming) = self.connection.take()? {
                match incoming {
                    Incoming::Pong => return Ok(()),
                    other => self.take(other)?,
                }
            }
        }
    }

    /// Reports what was published, also if the rest was not.
    fn finish(
        &mut self,
        arguments: &PublishArguments,
        result: Result<End, Failure>,
    ) -> Result<ExitCode, Failure> {
        if std::mem::take(&mut self.line_is_there) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = |count: u64| count as f64 / seconds.max(1e-9);
        if let Some(acks) = &mut self.acks {
            acks.flush()?;
        }
        if arguments.output == Output::Json && !arguments.ack {
            print_json(&json!({
                "subject": arguments.subject,
                "complete": matches!(result, Ok(End::Complete)),
                "messages": self.messages,
                "bytes": self.bytes,
                "seconds": seconds,
                "messages_per_second": rate(self.messages),
                "bytes_per_second": rate(self.bytes),
            }))?;
        } else if !arguments.quiet && (self.messages > 0 || result.is_ok()) {
            let acknowledged = match &self.acks {
                Some(acks) => format!(", {} acknowledged", acks.received),
                None => String::new(),
            };
            let speed = match self.messages {
                0 | 1 => String::new(),
                messages => format!(
                    " in {seconds:.2} s: {} messages/s, {}/s",
                    units::count(rate(messages)),
                    units::bytes(rate(self.bytes))
                ),
            };
            failure::tell(&format!(
                "{} published{acknowledged}, {}{speed}",
                units::plural(self.messages, "message"),
                units::bytes(self.bytes as f64)
            ));
        }
        result.map(|end| match end {
            End::Complete => ended(None),
            End::Stopped(stop) => ended(Some(stop)),
        })
    }
}

async fn wait_until(at: Option<Instant>) {
    if let Some(at) = at {
        tokio::time::sleep_until(at.into()).await;
    }
}
