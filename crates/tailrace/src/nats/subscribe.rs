//! `tailrace sub`: prints messages of subjects to standard output.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use tailrace_cli::failure::{self, Failure};
use tailrace_cli::output::Output;
use tailrace_cli::text::units::parse_duration;

use super::client::{ConnectArguments, Incoming, NatsError, Session};
use super::printer::{Look, Printer, reader_left};
use super::text::subject;
use crate::client::block_on;
use crate::interrupt::{FINISH, Interrupt};

/// Time for messages in flight when the verb is stopped.
const DRAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = "In a subject `*` matches one word, and `>` all words from there on.\n\n\
    Examples:\n  \
    tailrace sub 'orders.>'\n  \
    tailrace sub 'orders.*.new' 'returns.>' --queue workers --raw\n  \
    tailrace sub 'metrics.>' -o json | jq .payload\n  \
    tailrace sub answer --count 1 --wait 10s --raw\n\n\
    It shows messages that are published while it runs, until Ctrl-C. If the connection breaks it reconnects, and \
    misses what is published in the meantime. Topics store what they capture: see `tailrace consume`.")]
pub(crate) struct SubscribeArguments {
    /// Subjects to subscribe to, such as 'orders.>'
    #[arg(value_name = "SUBJECT", required = true, value_parser = subject::pattern)]
    subjects: Vec<String>,
    /// Share the messages with the other members of this queue group
    #[arg(short, long, value_name = "NAME", value_parser = subject::queue)]
    queue: Option<String>,
    /// Stop after N messages
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// Stop when no message has come for this long; status 1 if --count was not reached
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// Only payloads, each with a line end
    #[arg(short, long, conflicts_with = "output")]
    raw: bool,
    /// json: one object per line
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Show headers, which --raw leaves out
    #[arg(long)]
    headers: bool,
    /// Do not show headers
    #[arg(long, conflicts_with = "headers")]
    no_headers: bool,
    /// Show when each message arrived; JSON always does
    #[arg(long)]
    timestamps: bool,
    /// Do not report the subscription
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    connect: ConnectArguments,
}

impl SubscribeArguments {
    fn printer(&self) -> Result<Printer, Failure> {
        let look = match self.output {
            Output::Json => Look::Json,
            Output::Text if self.raw => Look::Payload,
            Output::Text => Look::Described,
        };
        let headers = if self.raw { self.headers } else { !self.no_headers };
        Ok(Printer::new(look, headers, self.timestamps)?)
    }
}

pub(crate) fn run(arguments: &SubscribeArguments) -> Result<ExitCode, Failure> {
    let printer = arguments.printer()?;
    if arguments.count == Some(0) {
        return Ok(ExitCode::SUCCESS);
    }
    block_on(async {
        let mut session = Session::open(&arguments.connect).await?;
        // With a single subscription the server can enforce the count, so that a queue group loses no
        // messages by it.
        let max = arguments.count.filter(|_| arguments.subjects.len() == 1);
        for subject in &arguments.subjects {
            session.subscribe(subject, arguments.queue.as_deref(), max);
        }
        session.connection().ping();
        let mut interrupt = Interrupt::install(FINISH)?;
        let mut subscriber = Subscriber { session, printer, arguments, seen: Instant::now() };
        tokio::select! {
            result = subscriber.run() => return result,
            _ = interrupt.wait() => {}
            () = reader_left() => return Ok(ExitCode::SUCCESS),
        }
        subscriber.drain().await
    })
}

struct Subscriber<'a> {
    session: Session,
    printer: Printer,
    arguments: &'a SubscribeArguments,
    /// When the last message came.
    seen: Instant,
}

impl Subscriber<'_> {
    async fn run(&mut self) -> Result<ExitCode, Failure> {
        let mut confirmed = false;
        loop {
            if self.is_complete() {
                self.printer.flush()?;
                return Ok(ExitCode::SUCCESS);
            }
            let incoming = match self.session.take()? {
                Some(incoming) => incoming,
                None => {
                    self.printer.flush()?;
                    match self.next().await? {
                        Some(incoming) => incoming,
                        None => return self.enough_waited(),
                    }
                }
            };
            match incoming {
                Incoming::Message(message) => {
                    self.printer.print(&message)?;
                    self.seen = Instant::now();
                }
                Incoming::Error(text) => return Err(NatsError::Server { text }.into()),
                Incoming::Pong if !confirmed => {
                    confirmed = true;
                    self.say_subscribed();
                }
                Incoming::Pong => {}
                Incoming::LameDuck => {
                    tailrace_cli::failure::note(&format!(
                        "{} is about to stop",
                        self.session.connection().address()
                    ));
                }
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.arguments.count.is_some_and(|count| self.printer.count() >= count)
    }

    /// Returns what arrives next. `None` once --wait has passed.
    async fn next(&mut self) -> Result<Option<Incoming>, Failure> {
        let Some(wait) = self.arguments.wait else { return Ok(Some(self.session.next().await?)) };
        match tokio::time::timeout_at((self.seen + wait).into(), self.session.next()).await {
            Ok(incoming) => Ok(Some(incoming?)),
            Err(_) => Ok(None),
        }
    }

    fn enough_waited(&self) -> Result<ExitCode, Failure> {
        match (self.arguments.count, self.arguments.wait) {
            (Some(count), Some(wait)) => {
                Err(format!("{} of {count} messages came, then none for {wait:?}", self.printer.count())
                    .into())
            }
            _ => Ok(ExitCode::SUCCESS),
        }
    }

    fn say_subscribed(&mut self) {
        if !self.arguments.quiet {
            let subjects = self.arguments.subjects.join(", ");
            let address = self.session.connection().address();
            failure::tell(&format!("subscribed to {subjects} at {address}"));
        }
    }

    /// Prints messages in flight, and ends.
    async fn drain(&mut self) -> Result<ExitCode, Failure> {
        self.session.drain();
        let drained = async {
            loop {
                match self.session.connection().next().await {
                    Ok(Incoming::Message(message)) if !self.is_complete() => self.printer.print(&message)?,
                    Ok(Incoming::Pong) | Err(_) => return Ok::<(), Failure>(()),
                    Ok(_) => {}
                }
            }
        };
        if let Ok(result) = tokio::time::timeout(DRAIN, drained).await {
            result?;
        }
        self.printer.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}
