//! `tailrace request`: sends one request and prints its replies.

use std::io::Read as _;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use tailrace_cli::failure::{self, Failure, plain};
use tailrace_cli::output::Output;
use tailrace_nats_wire::Message;

use super::client::{ConnectArguments, Connection, Incoming, NatsError, new_inbox};
use super::printer::{Look, Printer};
use super::text::{headers, subject};
use crate::client::block_on;

/// Our only subscription.
const SID: u64 = 1;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    tailrace request price.of '{\"article\": 7}'\n  \
    tailrace request who.is.there --replies 0 --timeout 1s     # all replies within a second\n  \
    tailrace request images.scale --raw < cat.png > small.png\n\n\
    The replies go to standard output. Status 1: there is no responder, or too few replies came in time.")]
pub(crate) struct RequestArguments {
    /// Subject of the request, such as price.of
    #[arg(value_name = "SUBJECT", value_parser = subject::literal)]
    subject: String,
    /// The request [default: standard input]
    #[arg(value_name = "DATA", allow_hyphen_values = true)]
    data: Option<String>,
    /// A header of the request; may be repeated
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = headers::name_value)]
    header: Vec<(String, String)>,
    /// Replies to wait for; 0: all that come within --timeout
    #[arg(long, value_name = "N", default_value_t = 1)]
    replies: u64,
    /// Show the headers of replies too
    #[arg(long)]
    headers: bool,
    /// Payloads without a line end
    #[arg(short, long, conflicts_with_all = ["output", "headers"])]
    raw: bool,
    /// json: one object per reply and line
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Do not show how long each reply took
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    connect: ConnectArguments,
}

impl RequestArguments {
    fn printer(&self) -> Result<Printer, Failure> {
        let look = match self.output {
            Output::Json => Look::Json,
            Output::Text if self.raw => Look::Bare,
            Output::Text => Look::Payload,
        };
        Ok(Printer::new(look, self.headers || look == Look::Json, false)?)
    }

    /// The payload of the request. Standard input is read before connecting, so that the connection never
    /// waits for it.
    fn payload(&self, bytes_max: usize) -> Result<Vec<u8>, Failure> {
        if let Some(data) = &self.data {
            return Ok(data.clone().into_bytes());
        }
        let mut bytes = Vec::new();
        let input = std::io::stdin().lock().take(bytes_max as u64 + 1);
        { input }
            .read_to_end(&mut bytes)
            .map_err(|error| format!("cannot read standard input: {}", plain(&error)))?;
        Ok(bytes)
    }
}

/// No server accepts larger messages.
const PAYLOAD_BYTES_MAX: usize = 64 << 20;

pub(crate) fn run(arguments: &RequestArguments) -> Result<ExitCode, Failure> {
    let payload = arguments.payload(PAYLOAD_BYTES_MAX)?;
    let printer = arguments.printer()?;
    block_on(async {
        let mut connection = arguments.connect.open().await?;
        let headers = headers::block(&arguments.header);
        let bytes = payload.len() + headers.as_ref().map_or(0, Vec::len);
        let max = connection.info().max_payload;
        if bytes > max {
            return Err(format!(
                "the request has {bytes} bytes, headers included; the server accepts {max} at most"
            )
            .into());
        }
        let inbox = new_inbox();
        connection.subscribe(inbox.as_bytes(), None, SID);
        let headers = headers.as_deref();
        let reply = Some(inbox.as_bytes());
        connection.publish(&Message {
            subject: arguments.subject.as_bytes(),
            reply,
            headers,
            payload: &payload,
        });
        Question { arguments, connection, printer, asked: Instant::now() }.answers().await
    })
}

struct Question<'a> {
    arguments: &'a RequestArguments,
    connection: Connection,
    printer: Printer,
    asked: Instant,
}

impl Question<'_> {
    async fn answers(mut self) -> Result<ExitCode, Failure> {
        let wanted = match self.arguments.replies {
            0 => u64::MAX,
            replies => replies,
        };
        let deadline = (self.asked + self.arguments.connect.timeout).into();
        while self.printer.count() < wanted {
            let incoming = match self.connection.take()? {
                Some(incoming) => incoming,
                None => {
                    self.printer.flush()?;
                    match tokio::time::timeout_at(deadline, self.connection.next()).await {
                        Ok(incoming) => incoming?,
                        Err(_) => return self.time_is_up(),
                    }
                }
            };
            self.take(incoming)?;
        }
        self.printer.flush()?;
        Ok(ExitCode::SUCCESS)
    }

    fn take(&mut self, incoming: Incoming) -> Result<(), Failure> {
        match incoming {
            Incoming::Message(answer) if answer.says_no_responders() => {
                Err(format!("there are no responders for '{}'", self.arguments.subject).into())
            }
            Incoming::Message(answer) => {
                self.printer.print(&answer)?;
                if !self.arguments.quiet {
                    failure::tell(&format!(
                        "answer {} after {:.2?}",
                        self.printer.count(),
                        self.asked.elapsed()
                    ));
                }
                Ok(())
            }
            Incoming::Error(text) => Err(NatsError::Server { text }.into()),
            Incoming::Pong | Incoming::LameDuck => Ok(()),
        }
    }

    fn time_is_up(&self) -> Result<ExitCode, Failure> {
        let (came, subject) = (self.printer.count(), &self.arguments.subject);
        let timeout = self.arguments.connect.timeout;
        match self.arguments.replies {
            0 if came > 0 => Ok(ExitCode::SUCCESS),
            0 | 1 => Err(format!("no answer from '{subject}' within {timeout:?}").into()),
            replies => Err(format!("{came} of {replies} answers from '{subject}' within {timeout:?}").into()),
        }
    }
}
