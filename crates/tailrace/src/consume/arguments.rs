//! Arguments of `tailrace consume`.

use clap::{Args, ValueEnum};
use tailrace_cli::failure::Failure;
use tailrace_cli::output::Output;
use tailrace_cli::text::units::parse_bytes;

use super::fetcher::FetchRules;
use super::format::Format;
use super::printer::{PrintRules, Style};
use super::range::{From, parse_from};
use crate::client::ConnectArguments;

#[derive(Debug, Args)]
#[command(after_help = "What a format may contain:\n  \
    %v %s  value          %V %S  its bytes, -1 for null\n  \
    %k     key            %K     its bytes, -1 for null\n  \
    %h     headers, as key=value,key=value\n  \
    %o offset   %p partition   %t topic\n  \
    %T     timestamp in ms since 1970, -1 for none\n  \
    %D     timestamp as 2026-11-20T09:30:00.000Z\n  \
    %%     a percent sign;  \\n \\t \\r \\0 \\xNN \\\\ as usual\n\
    Values, keys and headers are written byte for byte; null as nothing, or as --null says.\n\n\
    Examples:\n  \
    tailrace consume orders\n  \
    tailrace consume orders --from end --follow\n  \
    tailrace consume orders --from @-1h --format '%D %k: %v\\n'\n  \
    tailrace consume orders --from -10 -o json | jq .value\n  \
    tailrace consume orders -p 0 --from 4711 -c 1\n\n\
    Without --follow it stops at the end of each partition as of its start. Records of one \
    partition come in order; there is no order between partitions.")]
pub(crate) struct ConsumeArguments {
    /// The topic
    #[arg(value_name = "TOPIC")]
    pub(super) topic: String,
    /// Where to start: beginning, end, an offset, -N for the last N of each partition, or @TIME
    ///
    /// TIME is milliseconds since 1970, RFC 3339 such as 2026-11-20T09:30:00Z, or -1h for an hour ago.
    #[arg(long, value_name = "WHERE", default_value = "beginning", value_parser = parse_from, allow_hyphen_values = true)]
    pub(super) from: From,
    /// Only these partitions [default: all]
    #[arg(short, long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) partition: Vec<i32>,
    /// Stop after N records
    #[arg(short, long, value_name = "N")]
    pub(super) count: Option<u64>,
    /// Wait for new records at the end
    #[arg(long)]
    pub(super) follow: bool,
    /// Report damaged batches and skip them, instead of stopping there; the status is 1 all the same
    #[arg(long)]
    pub(super) skip_damaged: bool,
    /// The format of each record; see below
    #[arg(short, long, value_name = "FORMAT", default_value = "%v\\n", conflicts_with = "output",
        value_parser = legal_format)]
    format: String,
    /// Write keys instead of values: the same as --format '%k\n'
    #[arg(long, conflicts_with_all = ["format", "output"])]
    key_only: bool,
    /// Text for null in a format
    #[arg(long, value_name = "S", default_value = "", hide_default_value = true)]
    null: String,
    /// json: one object per line
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
    /// Whether records of unfinished and aborted transactions are shown
    #[arg(long, value_enum, default_value_t = Isolation::ReadCommitted)]
    isolation: Isolation,
    /// Most bytes per fetch
    #[arg(long, value_name = "BYTES", default_value = "4MiB", value_parser = parse_bytes)]
    fetch_bytes: u64,
    #[command(flatten)]
    pub(super) connect: ConnectArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Isolation {
    /// Only committed records
    #[value(name = "read_committed", alias = "read-committed")]
    ReadCommitted,
    /// All records
    #[value(name = "read_uncommitted", alias = "read-uncommitted")]
    ReadUncommitted,
}

impl ConsumeArguments {
    pub(super) fn is_read_committed(&self) -> bool {
        self.isolation == Isolation::ReadCommitted
    }

    pub(super) fn style(&self) -> Result<Style, Failure> {
        let format = if self.key_only { "%k\\n" } else { &self.format };
        Ok(match self.output {
            Output::Json => Style::Json,
            Output::Text => Style::Format(Format::parse(format, self.null.as_bytes())?),
        })
    }

    pub(super) fn print_rules(&self) -> PrintRules {
        PrintRules {
            count: self.count,
            read_committed: self.is_read_committed(),
            skips_damaged: self.skip_damaged,
        }
    }

    pub(super) fn fetch_rules(&self) -> FetchRules {
        FetchRules {
            read_committed: self.is_read_committed(),
            bytes_max: i32::try_from(self.fetch_bytes).unwrap_or(i32::MAX >> 1).max(1),
        }
    }
}

/// Validates a format.
fn legal_format(text: &str) -> Result<String, String> {
    Format::parse(text, b"").map(|_| text.to_owned())
}
