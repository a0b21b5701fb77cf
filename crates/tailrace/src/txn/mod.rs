//! `tailrace txn ...`: show transactions, and end those that hang.

mod abort;
mod coordinator;
mod describe;
mod list;

use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use tailrace_cli::failure::Failure;
use tailrace_cli::text::names::one_of;
use tailrace_cli::text::units::parse_duration;

use crate::client::{AskArguments, Cluster, block_on};

#[derive(Debug, Args)]
pub(crate) struct TxnArguments {
    #[command(subcommand)]
    verb: TxnVerb,
}

#[derive(Debug, Subcommand)]
enum TxnVerb {
    /// Show transactional ids and their states.
    #[command(after_help = "Examples:\n  tailrace txn list\n  \
        tailrace txn list --state Ongoing --longer-than 10m\n  tailrace txn list --pattern 'orders-.*' -o json")]
    List(ListArguments),
    /// Show producer, age and partitions of transactions.
    Describe(DescribeArguments),
    /// End a transaction that hangs, without committing it.
    #[command(
        after_help = "By transactional id the coordinator aborts what is open and fences the producer off, as a new \
        producer of that id would. In one partition a marker is written whatever the coordinator says: for transactions \
        that hold readers up and that no coordinator knows.\n\nExamples:\n  \
        tailrace txn abort --transactional-id orders-1\n  \
        tailrace txn abort --topic orders --partition 3 --start-offset 4711"
    )]
    Abort(AbortArguments),
}

#[derive(Debug, Args)]
struct ListArguments {
    /// Only in this state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort; may be repeated
    #[arg(short, long, value_name = "STATE", value_parser = state)]
    state: Vec<String>,
    /// Only of this producer id; may be repeated
    #[arg(short, long, value_name = "ID", value_parser = clap::value_parser!(i64).range(0..))]
    producer_id: Vec<i64>,
    /// Only those that began longer ago than this: 30s, 10m, 2h
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    longer_than: Option<Duration>,
    /// Only ids that match this regular expression from end to end
    #[arg(long, value_name = "REGEX")]
    pattern: Option<String>,
    #[command(flatten)]
    common: AskArguments,
}

#[derive(Debug, Args)]
struct DescribeArguments {
    /// Transactional ids
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    common: AskArguments,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["transactional_id", "topic"]))]
#[command(group = ArgGroup::new("which").args(["start_offset", "producer_id"]))]
struct AbortArguments {
    /// The transaction of this id, in all its partitions
    #[arg(long, value_name = "ID")]
    transactional_id: Option<String>,
    /// The transaction in a partition of this topic
    #[arg(long, value_name = "TOPIC", requires = "partition", requires = "which")]
    topic: Option<String>,
    /// The partition
    #[arg(long, value_name = "N", requires = "topic", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// That begins at this offset of the partition
    #[arg(long, value_name = "OFFSET", requires = "topic", value_parser = clap::value_parser!(i64).range(0..))]
    start_offset: Option<i64>,
    /// That is of this producer id
    #[arg(long, value_name = "ID", requires = "topic", value_parser = clap::value_parser!(i64).range(0..))]
    producer_id: Option<i64>,
    #[command(flatten)]
    common: AskArguments,
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
    fn common(&self) -> &AskArguments {
        match self {
            Self::List(arguments) => &arguments.common,
            Self::Describe(arguments) => &arguments.common,
            Self::Abort(arguments) => &arguments.common,
        }
    }
}

pub(crate) fn run(arguments: &TxnArguments) -> Result<ExitCode, Failure> {
    let verb = &arguments.verb;
    block_on(async {
        let mut cluster = Cluster::connect(&verb.common().connect).await?;
        match verb {
            TxnVerb::List(arguments) => list::run(&mut cluster, arguments).await,
            TxnVerb::Describe(arguments) => describe::run(&mut cluster, arguments).await,
            TxnVerb::Abort(arguments) => abort::run(&mut cluster, arguments).await,
        }
    })
}
