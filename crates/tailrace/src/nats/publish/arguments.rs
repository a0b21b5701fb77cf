//! Arguments of `tailrace pub`.

use clap::Args;
use tailrace_cli::failure::{Failure, usage};
use tailrace_cli::output::Output;
use tailrace_cli::text::units::parse_rate;
use tailrace_nats_wire::Message;

use super::input::Source;
use crate::nats::client::ConnectArguments;
use crate::nats::text::template::Template;
use crate::nats::text::{headers, subject};

#[derive(Debug, Args)]
#[command(
    after_help = "Without DATA all of standard input is one message; with --lines each line is one.\n\n\
    Examples:\n  \
    tailrace pub orders.eu.new '{\"id\": 7}'\n  \
    tailrace pub orders.eu.new -H 'Trace: 12ab' --ack < order.json\n  \
    tail -f app.log | tailrace pub logs.web1 --lines\n  \
    tailrace pub --template load.{{Count}} 'message {{Count}}' --count 1M --rate 20k\n\n\
    Templates know {{Count}} (from 1 on), {{Unix}}, {{UnixNano}} and {{TimeStamp}}.\n\n\
    Status 0 without --ack means that the server has read everything and reported no error. With --ack it \
    means that a topic has stored every message, as durably as that topic promises."
)]
pub(crate) struct PublishArguments {
    /// Subject to publish to, such as orders.eu.new
    #[arg(value_name = "SUBJECT")]
    pub(super) subject: String,
    /// The message [default: standard input]
    #[arg(value_name = "DATA", allow_hyphen_values = true)]
    data: Option<String>,
    /// Each line of standard input is a message, without its line end
    #[arg(short, long, conflicts_with_all = ["data", "count"])]
    lines: bool,
    /// A header of every message; may be repeated
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = headers::name_value)]
    header: Vec<(String, String)>,
    /// Subject for replies
    #[arg(short, long, value_name = "SUBJECT", value_parser = subject::literal, conflicts_with = "ack")]
    reply: Option<String>,
    /// Publish it this many times: 1000, 20k, 1M
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = parse_count, hide_default_value = true)]
    count: u64,
    /// Publish this many per second, evenly spaced: 1000, 20k
    #[arg(long, value_name = "N/s", value_parser = parse_rate)]
    pub(super) rate: Option<f64>,
    /// Fill in {{Count}} and the like in SUBJECT and DATA
    #[arg(long)]
    template: bool,
    /// Wait until a topic has stored each message, and show its acknowledgement
    #[arg(short, long)]
    pub(super) ack: bool,
    /// Most messages in flight without an acknowledgement
    #[arg(long, value_name = "N", default_value_t = 256, requires = "ack",
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) in_flight: u32,
    /// No summary, no acknowledgements
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Summary on standard error; or as JSON on standard output, with --ack an object per acknowledgement
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) connect: ConnectArguments,
}

/// The parts that all messages share.
#[derive(Debug)]
pub(super) struct Envelope {
    subject: Template,
    reply: Option<String>,
    headers: Option<Vec<u8>>,
}

impl Envelope {
    /// The size of the headers, which reduces the room for the payload.
    pub(super) fn header_bytes(&self) -> usize {
        self.headers.as_ref().map_or(0, Vec::len)
    }

    pub(super) fn subject(&self, count: u64) -> Vec<u8> {
        self.subject.render(count, b"")
    }

    /// Message `count`. `inbox` is the subject for its acknowledgement.
    pub(super) fn message<'a>(
        &'a self,
        subject: &'a [u8],
        inbox: Option<&'a [u8]>,
        payload: &'a [u8],
    ) -> Message<'a> {
        let reply = inbox.or(self.reply.as_deref().map(str::as_bytes));
        Message { subject, reply, headers: self.headers.as_deref(), payload }
    }
}

impl PublishArguments {
    pub(super) fn envelope(&self) -> Result<Envelope, Failure> {
        let subject = if self.template {
            let template = Template::parse(&self.subject, false).map_err(usage)?;
            // One rendered example shows whether the text around the placeholders is valid.
            let example = template.render(1, b"");
            subject::literal(&String::from_utf8_lossy(&example)).map_err(usage)?;
            template
        } else {
            Template::plain(subject::literal(&self.subject).map_err(usage)?.as_bytes())
        };
        Ok(Envelope { subject, reply: self.reply.clone(), headers: headers::block(&self.header) })
    }

    /// The source of the messages. `bytes_max` is the largest payload.
    pub(super) fn source(&self, bytes_max: usize) -> Result<Source, Failure> {
        if self.lines {
            return Source::lines(bytes_max);
        }
        match &self.data {
            Some(data) if self.template => {
                Ok(Source::repeat(Template::parse(data, false).map_err(usage)?, self.count))
            }
            Some(data) => Ok(Source::repeat(Template::plain(data.as_bytes()), self.count)),
            None => Source::whole(bytes_max, self.count, self.template),
        }
    }
}

/// Parses a count: 1000, 20k, 1M.
fn parse_count(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(['k', 'M']);
    let scale = match &text[digits.len()..] {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        _ => return Err("expected a number such as 1000, 20k or 1M".to_owned()),
    };
    let count: u64 = digits.parse().map_err(|_| "expected a number such as 1000, 20k or 1M".to_owned())?;
    count.checked_mul(scale).filter(|count| *count > 0).ok_or_else(|| "it must be at least 1".to_owned())
}
