//! `tailrace pub`: from the command line or standard input to a subject.
//!
//! One task sends and reads in turn, so that complaints, acknowledgements and PINGs are seen while it publishes; standard
//! input has a thread of its own ([`input`]). Bounded buffers between them slow the reader down to what the server
//! takes. A broken connection ends the verb: what was sent before may or may not have arrived.

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

/// Messages that are put into the buffer before the socket is looked at again.
const BURST: u32 = 512;
/// Time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

pub(crate) fn run(arguments: &PublishArguments) -> Result<ExitCode, Failure> {
    let envelope = arguments.envelope()?;
    block_on(async {
        let connection = arguments.connect.open().await?;
        if envelope.header_bytes() > 0 && !connection.info().headers {
            return Err("the server carries no headers".into());
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

/// How the verb ended, if not with a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    /// By a signal, before everything was published.
    Stopped(Stop),
}

struct Publisher {
    connection: Connection,
    envelope: Envelope,
    source: Source,
    acks: Option<Acks>,
    rate: Option<f64>,
    timeout: Duration,
    /// Somebody watches standard error.
    shows_progress: bool,
    /// A line is there that the next one overwrites.
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

    /// When the next message is due; `None` if it waits for something else.
    fn due(&self) -> Option<Instant> {
        let rate = self.rate?;
        Some(self.started + Duration::from_secs_f64(self.messages as f64 / rate))
            .filter(|_| self.has_room() && !self.source.waits())
    }

    fn has_room(&self) -> bool {
        self.connection.has_room() && self.acks.as_ref().is_none_or(Acks::has_room)
    }

    /// Puts messages into the buffer while there are some and there is room. True at the end of the input.
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
                "message {} has {bytes} bytes, headers included; the server takes {max} at most",
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
        // That it cannot be written is nothing to die of.
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

    /// Waits until the server has read everything. A complaint about any of it comes before the PONG.
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

    /// Says what was published, also when the rest was not.
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
