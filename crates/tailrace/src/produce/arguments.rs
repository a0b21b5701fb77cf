//! Arguments of `tailrace produce`.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tailrace_cli::failure::{Failure, plain};
use tailrace_cli::output::Output;
use tailrace_cli::text::escape::unescape;
use tailrace_cli::text::pairs::key_value;
use tailrace_cli::text::units::parse_bytes;
use tailrace_records::Compression;

use super::lines::LineFormat;
use crate::client::ConnectArguments;

/// An input of at least this size gets a progress line if standard error is a terminal.
const PROGRESS_BYTES_MIN: u64 = 16 << 20;

#[derive(Debug, Args)]
#[command(
    after_help = "Each line is a record, without its line end; an empty line is a record with an empty value, and a last line \
    needs no line end. With --key-separator, the text before its first occurrence is the key; a line without it \
    has no key. Records with a key go to the partition where Kafka's Java client puts them (murmur2); those without \
    go to one partition per batch, in turn.\n\n\
    Examples:\n  \
    tailrace produce logs < app.log\n  \
    tailrace produce orders -K : --compression zstd < orders.txt\n  \
    tail -f app.log | tailrace produce logs -H host=web1\n  \
    tailrace produce images --files *.png\n\n\
    The records are acknowledged when the command ends with status 0. With --acks all, the default, a batch that \
    had to be retried is stored once and in order; with 0 or 1 it may be stored twice or out of order."
)]
pub(crate) struct ProduceArguments {
    /// The topic; created if the server's auto.create.topics.enable allows it
    #[arg(value_name = "TOPIC")]
    pub(super) topic: String,
    /// All of standard input is one record
    #[arg(long, conflicts_with_all = ["files", "key_separator"])]
    file: bool,
    /// Each of these files is one record; standard input is not read
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with = "key_separator")]
    files: Vec<PathBuf>,
    /// Text between key and value of a line; \t and the like are escapes
    #[arg(short = 'K', long, value_name = "S", value_parser = non_empty_bytes)]
    key_separator: Option<Escaped>,
    /// Key of every record
    #[arg(short, long, value_name = "KEY", conflicts_with = "key_separator")]
    key: Option<String>,
    /// A key or value that is exactly this is null
    #[arg(long, value_name = "S")]
    null: Option<String>,
    /// A header of every record; may be repeated
    #[arg(short = 'H', long, value_name = "KEY=VALUE", value_parser = key_value)]
    header: Vec<(String, String)>,
    /// Which acknowledgement to wait for: 0 none, 1 the leader's, all: as durable as the topic promises
    #[arg(short, long, value_enum, default_value_t = Acks::All)]
    pub(super) acks: Acks,
    /// none, gzip, snappy, lz4 or zstd
    #[arg(short = 'z', long, value_name = "CODEC", default_value = "none")]
    pub(super) compression: Compression,
    /// Partition of every record, whatever its key
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) partition: Option<i32>,
    /// Size, before compression, at which a batch is sent; at most the topic's max.message.bytes
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_bytes)]
    pub(super) batch_bytes: u64,
    /// Longest wait for a batch to fill while the input pauses
    #[arg(long, value_name = "MS", default_value_t = 5)]
    linger_ms: u64,
    /// Most requests in flight to one node
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(super) in_flight: u8,
    /// Memory for records that are not acknowledged yet
    #[arg(long, value_name = "BYTES", default_value = "32MiB", value_parser = parse_bytes)]
    pub(super) buffer_bytes: u64,
    /// Send without a producer id: a retried batch may be stored twice
    #[arg(long)]
    pub(super) no_idempotence: bool,
    /// Show progress on standard error even if it is not a terminal
    #[arg(long, conflicts_with = "quiet")]
    progress: bool,
    /// No progress and no summary
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Summary as a line on standard error, or as JSON on standard output
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) connect: ConnectArguments,
}

/// `--acks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Acks {
    /// Never
    #[value(name = "0")]
    None,
    /// When the leader has appended
    #[value(name = "1")]
    Leader,
    /// When it is as durable as the topic promises
    #[value(name = "all", alias = "-1")]
    All,
}

impl Acks {
    /// The value in a request.
    pub(super) const fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// Bytes that were written with escapes. A type of its own, since clap takes a bare list of bytes for
/// multiple values.
#[derive(Clone, Debug)]
pub(super) struct Escaped(Vec<u8>);

fn non_empty_bytes(text: &str) -> Result<Escaped, String> {
    let bytes = unescape(text)?;
    if bytes.is_empty() { Err("it must not be empty".to_owned()) } else { Ok(Escaped(bytes)) }
}

/// Where records come from.
#[derive(Debug)]
pub(super) enum Source {
    /// Each line of standard input.
    Lines { input: File, regular_bytes: Option<u64> },
    /// All of standard input.
    Whole(File),
    /// Each of these files.
    Files(Vec<PathBuf>),
}

impl Source {
    pub(super) fn new(arguments: &ProduceArguments) -> Result<Self, Failure> {
        if !arguments.files.is_empty() {
            return Ok(Self::Files(arguments.files.clone()));
        }
        let stdin = |error| format!("cannot read standard input: {}", plain(&error));
        let input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(stdin)?);
        if arguments.file {
            return Ok(Self::Whole(input));
        }
        let metadata = input.metadata().map_err(stdin)?;
        Ok(Self::Lines { input, regular_bytes: metadata.is_file().then_some(metadata.len()) })
    }

    /// Size of the input, if known.
    pub(super) fn bytes_known(&self) -> Option<u64> {
        match self {
            Self::Lines { regular_bytes, .. } => *regular_bytes,
            Self::Whole(_) | Self::Files(_) => None,
        }
    }
}

impl ProduceArguments {
    pub(super) fn linger(&self) -> Duration {
        Duration::from_millis(self.linger_ms)
    }

    pub(super) fn shows_progress(&self, source: &Source) -> bool {
        let long = source.bytes_known().is_some_and(|bytes| bytes >= PROGRESS_BYTES_MIN);
        self.progress || (!self.quiet && long && io::stderr().is_terminal())
    }

    pub(super) fn line_format(&self) -> Result<LineFormat, Failure> {
        let headers = self.header.iter();
        Ok(LineFormat {
            key_separator: self.key_separator.clone().map(|separator| separator.0),
            key: self.key.clone().map(String::into_bytes),
            null: self.null.clone().map(String::into_bytes),
            headers: headers.map(|(k, v)| (k.clone().into_bytes(), v.clone().into_bytes())).collect(),
        })
    }
}
