//! The command line of `tailrace txn`.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use tailrace_cli::text::names::one_of;
use tailrace_cli::text::units::parse_duration;

use crate::client::AskArguments;

#[derive(Debug, Args)]
pub(crate) struct TxnArguments {
    #[command(subcommand)]
    pub(super) verb: TxnVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum TxnVerb {
    /// Show transactional ids and their states.
    #[command(after_help = "Examples:\n  tailrace txn list\n  \
        tailrace txn list --state Ongoing --longer-than 10m\n  tailrace txn list --pattern 'orders-.*' -o json")]
    List(ListArguments),
    /// Show producer, age and partitions of transactions.
    Describe(DescribeArguments),
    /// Abort a hanging transaction.
    #[command(
        after_help = "With a transactional id, the coordinator aborts the open transaction and fences its producer, as a new \
        producer with that id would. With a topic and a partition, an abort marker is written there without asking the \
        coordinator: for transactions that block readers and that no coordinator knows.\n\nExamples:\n  \
        tailrace txn abort --transactional-id orders-1\n  \
        tailrace txn abort --topic orders --partition 3 --start-offset 4711"
    )]
    Abort(AbortArguments),
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Only in this state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort; may be
    /// repeated
    #[arg(short, long, value_name = "STATE", value_parser = state)]
    pub(super) state: Vec<String>,
    /// Only with this producer id; may be repeated
    #[arg(short, long, value_name = "ID", value_parser = clap::value_parser!(i64).range(0..))]
    pub(super) producer_id: Vec<i64>,
    /// Only transactions that started longer ago than this: 30s, 10m, 2h
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) longer_than: Option<Duration>,
    /// Only ids that match this regular expression as a whole
    #[arg(long, value_name = "REGEX")]
    pub(super) pattern: Option<String>,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
pub(super) struct DescribeArguments {
    /// Transactional ids
    #[arg(value_name = "ID", required = true)]
    pub(super) ids: Vec<String>,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["transactional_id", "topic"]))]
#[command(group = ArgGroup::new("which").args(["start_offset", "producer_id"]))]
pub(super) struct AbortArguments {
    /// The transaction of this id, in all its partitions
    #[arg(long, value_name = "ID")]
    pub(super) transactional_id: Option<String>,
    /// The transaction in a partition of this topic
    #[arg(long, value_name = "TOPIC", requires = "partition", requires = "which")]
    pub(super) topic: Option<String>,
    /// The partition
    #[arg(long, value_name = "N", requires = "topic", value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) partition: Option<i32>,
    /// The transaction that starts at this offset of the partition
    #[arg(long, value_name = "OFFSET", requires = "topic", value_parser = clap::value_parser!(i64).range(0..))]
    pub(super) start_offset: Option<i64>,
    /// The transaction of this producer id
    #[arg(long, value_name = "ID", requires = "topic", value_parser = clap::value_parser!(i64).range(0..))]
    pub(super) producer_id: Option<i64>,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

/// The states of transactional ids, as Kafka names them.
const STATES: &[&str] = &[
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
];

fn state(text: &str) -> Result<String, String> {
    one_of(STATES, text)
}

impl TxnVerb {
    pub(super) fn common(&self) -> &AskArguments {
        match self {
            Self::List(arguments) => &arguments.common,
            Self::Describe(arguments) => &arguments.common,
            Self::Abort(arguments) => &arguments.common,
        }
    }
}
