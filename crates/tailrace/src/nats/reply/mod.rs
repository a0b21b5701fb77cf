//! `tailrace reply`: answers requests with a text, with the request itself, or with a program's output.

mod command;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{ArgGroup, Args};
use tailrace_cli::failure::{self, Failure, note};
use tailrace_cli::text::units::parse_duration;
use tailrace_nats_wire::Message;
use tokio::task::{JoinError, JoinSet};

use super::client::{ConnectArguments, Incoming, NatsError, Received, Session};
use super::text::template::Template;
use super::text::{headers, subject};
use crate::client::block_on;
use crate::interrupt::{FINISH, Interrupt};
use command::Job;

/// Time for replies in flight when the verb ends.
const DRAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("answer").required(true).args(["text", "echo", "command"]))]
#[command(after_help = "Examples:\n  \
    tailrace reply who.is.there 'web1 is here'\n  \
    tailrace reply ping --echo\n  \
    tailrace reply 'weather.*' --command 'weather \"${NATS_REQUEST_SUBJECT#weather.}\"' --parallel 4\n\n\
    A command is run by `sh -c` for each request, with the request on its standard input and its subject in \
    NATS_REQUEST_SUBJECT; its standard output is the reply. If it fails, the reply is empty and has \
    the headers Nats-Service-Error and Nats-Service-Error-Code. Templates know {{Count}}, {{Request}}, {{Unix}}, \
    {{UnixNano}} and {{TimeStamp}}.")]
pub(crate) struct ReplyArguments {
    /// Subject to answer, such as 'weather.*'
    #[arg(value_name = "SUBJECT", value_parser = subject::pattern)]
    subject: String,
    /// The reply
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,
    /// Reply with the request, headers included
    #[arg(long)]
    echo: bool,
    /// Reply with the output of this command
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
    /// Share the requests with the other members of this queue group
    #[arg(short, long, value_name = "NAME", value_parser = subject::queue)]
    queue: Option<String>,
    /// A header of every reply; may be repeated
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = headers::name_value)]
    header: Vec<(String, String)>,
    /// Fill in {{Count}} and the like in TEXT
    #[arg(long, requires = "text")]
    template: bool,
    /// Stop after N replies
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// Most commands that run at once; further requests wait
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    parallel: u16,
    /// Kill a command that takes longer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    command_timeout: Duration,
    /// Do not report requests
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    connect: ConnectArguments,
}

/// Where replies come from.
enum ReplySource {
    Text(Template),
    Echo,
    Command(String),
}

impl ReplyArguments {
    fn answer(&self) -> Result<ReplySource, Failure> {
        Ok(match (&self.text, &self.command) {
            (Some(text), _) if self.template => {
                ReplySource::Text(Template::parse(text, true).map_err(failure::usage)?)
            }
            (Some(text), _) => ReplySource::Text(Template::plain(text.as_bytes())),
            (None, Some(command)) => ReplySource::Command(command.clone()),
            (None, None) => ReplySource::Echo,
        })
    }
}

/// A request that a command has answered.
struct Done {
    request: Received,
    number: u64,
    since: Instant,
    answer: Result<Vec<u8>, String>,
}

pub(crate) fn run(arguments: &ReplyArguments) -> Result<ExitCode, Failure> {
    let answer = arguments.answer()?;
    if arguments.count == Some(0) {
        return Ok(ExitCode::SUCCESS);
    }
    block_on(async {
        let mut session = Session::open(&arguments.connect).await?;
        session.subscribe(&arguments.subject, arguments.queue.as_deref(), None);
        session.connection().ping();
        let mut interrupt = Interrupt::install(FINISH)?;
        let headers = headers::block(&arguments.header);
        let jobs = JoinSet::new();
        let mut replier =
            Replier { session, answer, headers, jobs, arguments, taken: 0, answered: 0, confirmed: false };
        tokio::select! {
            result = replier.run() => result?,
            _ = interrupt.wait() => {}
        }
        replier.drain().await;
        Ok(ExitCode::SUCCESS)
    })
}

struct Replier<'a> {
    session: Session,
    answer: ReplySource,
    headers: Option<Vec<u8>>,
    jobs: JoinSet<Done>,
    arguments: &'a ReplyArguments,
    /// Requests whose handling has started.
    taken: u64,
    answered: u64,
    confirmed: bool,
}

impl Replier<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        while self.arguments.count.is_none_or(|count| self.answered < count) {
            // If the server reads replies too slowly, neither they nor commands may pile up.
            let listens = self.session.connection().has_room()
                && self.jobs.len() < usize::from(self.arguments.parallel)
                && self.arguments.count.is_none_or(|count| self.taken < count);
            let unsent = !self.session.connection().is_sent();
            if listens {
                tokio::select! {
                    Some(done) = self.jobs.join_next(), if !self.jobs.is_empty() => self.finish(done)?,
                    incoming = self.session.next() => self.take(incoming?)?,
                }
            } else {
                tokio::select! {
                    Some(done) = self.jobs.join_next(), if !self.jobs.is_empty() => self.finish(done)?,
                    () = self.session.connection().write(), if unsent => {}
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, incoming: Incoming) -> Result<(), Failure> {
        match incoming {
            Incoming::Message(request) => self.begin(request),
            Incoming::Error(text) => Err(NatsError::Server { text }.into()),
            Incoming::Pong => {
                if !self.confirmed && !self.arguments.quiet {
                    failure::tell(&format!(
                        "answering {} at {}",
                        self.arguments.subject,
                        self.session.connection().address()
                    ));
                }
                self.confirmed = true;
                Ok(())
            }
            Incoming::LameDuck => {
                note(&format!("{} is about to stop", self.session.connection().address()));
                Ok(())
            }
        }
    }

    fn begin(&mut self, request: Received) -> Result<(), Failure> {
        let since = Instant::now();
        if request.reply().is_none() {
            note(&format!("a message to {} asks for no reply", shown(request.subject())));
            return Ok(());
        }
        self.taken += 1;
        let number = self.taken;
        let answer = match &self.answer {
            ReplySource::Text(text) => text.render(number, request.payload()),
            ReplySource::Echo => request.payload().to_vec(),
            ReplySource::Command(command) => {
                let job = Job {
                    command: command.clone(),
                    subject: request.subject().to_vec(),
                    payload: request.payload().to_vec(),
                    timeout: self.arguments.command_timeout,
                    bytes_max: self.session.connection().info().max_payload,
                };
                self.jobs.spawn(async move { Done { request, number, since, answer: job.run().await } });
                return Ok(());
            }
        };
        self.reply(&Done { request, number, since, answer: Ok(answer) })
    }

    fn finish(&mut self, done: Result<Done, JoinError>) -> Result<(), Failure> {
        self.reply(&done.map_err(|error| format!("a command was lost: {error}"))?)
    }

    fn reply(&mut self, done: &Done) -> Result<(), Failure> {
        let echoed = done.request.headers().filter(|_| matches!(self.answer, ReplySource::Echo));
        let own = echoed.or(self.headers.as_deref());
        let failed;
        let (headers, payload) = match &done.answer {
            Ok(answer) => (own, &answer[..]),
            Err(reason) => {
                note(&format!("request {} to {}: {reason}", done.number, shown(done.request.subject())));
                failed = failure_headers(reason);
                (failed.as_deref(), &b""[..])
            }
        };
        let connection = self.session.connection();
        let bytes = payload.len() + headers.map_or(0, <[u8]>::len);
        let max = connection.info().max_payload;
        if bytes > max {
            return Err(
                format!("the answer has {bytes} bytes, headers included; the server accepts {max}").into()
            );
        }
        let subject = done.request.reply().unwrap_or_default();
        connection.publish(&Message { subject, reply: None, headers, payload });
        self.answered += 1;
        if !self.arguments.quiet {
            failure::tell(&format!(
                "[#{}] {}: {} B, answered with {} B after {:.2?}",
                done.number,
                shown(done.request.subject()),
                done.request.payload().len(),
                payload.len(),
                done.since.elapsed(),
            ));
        }
        Ok(())
    }

    /// Waits for running commands, and for the replies in flight.
    async fn drain(&mut self) {
        let drained = async {
            while let Some(done) = self.jobs.join_next().await {
                self.finish(done)?;
            }
            self.session.connection().ping();
            while !matches!(self.session.connection().next().await?, Incoming::Pong) {}
            Ok::<(), Failure>(())
        };
        // The only ones left to notice a failure are the requesters.
        let _ = tokio::time::timeout(DRAIN, drained).await;
    }
}

/// The headers with which NATS services report an error.
fn failure_headers(reason: &str) -> Option<Vec<u8>> {
    let reason: String = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    headers::block(&[
        ("Nats-Service-Error".to_owned(), reason),
        ("Nats-Service-Error-Code".to_owned(), "500".to_owned()),
    ])
}

/// A subject, escaped for display.
fn shown(subject: &[u8]) -> String {
    subject.escape_ascii().to_string()
}
