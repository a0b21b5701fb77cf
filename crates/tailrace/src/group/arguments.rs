//! The command line of `tailrace group`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use tailrace_cli::text::names::one_of;
use tailrace_cli::text::time::{now_ms, parse_instant};
use tailrace_cli::text::units::parse_duration;

use super::choice::{TopicChoice, parse_choice};
use crate::client::AskArguments;

#[derive(Debug, Args)]
pub(crate) struct GroupArguments {
    #[command(subcommand)]
    pub(super) verb: GroupVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum GroupVerb {
    /// Show all groups with their types and states.
    List(ListArguments),
    /// Show members and what is assigned to them.
    #[command(after_help = "Examples:\n  tailrace group describe billing\n  tailrace group describe -o json")]
    Describe(DescribeArguments),
    /// Show the lag of groups.
    #[command(
        after_help = "Examples:\n  tailrace group lag billing\n  tailrace group lag billing --watch 5s\n  \
        tailrace group lag -o json"
    )]
    Lag(LagArguments),
    /// Set the offsets of a group without members. Without --execute it only shows what it would do.
    #[command(after_help = "Examples:\n  tailrace group reset billing --all-topics --to-earliest\n  \
        tailrace group reset billing --topic orders:0,1 --to-datetime 2026-11-20T09:30:00Z --execute\n  \
        tailrace group reset billing --all-topics --to-current --export > offsets.csv\n  \
        tailrace group reset billing --from-file offsets.csv --execute")]
    Reset(ResetArguments),
    /// Delete groups without members, or their offsets of single topics.
    #[command(after_help = "Examples:\n  tailrace group delete billing audit\n  \
        tailrace group delete billing --topic orders")]
    Delete(DeleteArguments),
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Only groups in this state: stable, empty, preparing-rebalance...; comma list
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    pub(super) state: Vec<String>,
    /// Only groups of this type: classic, consumer, share, streams; comma list
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = kind)]
    pub(super) kind: Vec<String>,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
pub(super) struct DescribeArguments {
    /// Groups; none for all
    #[arg(value_name = "GROUP")]
    pub(super) names: Vec<String>,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
pub(super) struct LagArguments {
    /// Groups; none for all
    #[arg(value_name = "GROUP")]
    pub(super) names: Vec<String>,
    /// Only this topic; may be repeated
    #[arg(short, long, value_name = "TOPIC")]
    pub(super) topic: Vec<String>,
    /// Show it repeatedly, with this pause in between, until Ctrl-C or SIGTERM
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) watch: Option<Duration>,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("target").required(true).multiple(false))]
#[command(group = ArgGroup::new("scope").required(true).multiple(false))]
pub(super) struct ResetArguments {
    /// The group
    #[arg(value_name = "GROUP")]
    pub(super) name: String,
    /// A topic, all of it or some partitions: orders, or orders:0,3; may be repeated
    #[arg(short, long, value_name = "TOPIC[:N,N]", group = "scope", value_parser = parse_choice)]
    pub(super) topic: Vec<TopicChoice>,
    /// Every partition that the group has an offset for
    #[arg(long, group = "scope")]
    pub(super) all_topics: bool,
    /// To the first record that is still retained
    #[arg(long, group = "target")]
    pub(super) to_earliest: bool,
    /// To the end, after the last record
    #[arg(long, group = "target")]
    pub(super) to_latest: bool,
    /// To the group's current offset, clamped to what is retained; with --export, to save it
    #[arg(long, group = "target")]
    pub(super) to_current: bool,
    /// To this offset
    #[arg(long, value_name = "N", group = "target", value_parser = clap::value_parser!(i64).range(0..))]
    pub(super) to_offset: Option<i64>,
    /// By this many offsets from the current one: 10, or -10
    #[arg(long, value_name = "N", group = "target", allow_negative_numbers = true)]
    pub(super) shift_by: Option<i64>,
    /// To the first record of this time or later: 2026-11-20T09:30:00Z, 2026-11-20, milliseconds since 1970,
    /// or -1h for an hour ago
    #[arg(long, value_name = "TIME", group = "target", value_parser = parse_time, allow_hyphen_values = true)]
    pub(super) to_datetime: Option<i64>,
    /// To the first record that is at most this old: 90m, 7d
    #[arg(long, value_name = "TIME", group = "target", value_parser = parse_duration)]
    pub(super) by_duration: Option<Duration>,
    /// To the offsets in a file: lines of TOPIC,PARTITION,OFFSET, as --export writes them; - is standard
    /// input
    #[arg(long, value_name = "FILE", groups = ["target", "scope"])]
    pub(super) from_file: Option<PathBuf>,
    /// Do it
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) execute: bool,
    /// Only show what would be done (the default)
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print TOPIC,PARTITION,OFFSET lines of what would be set, and change nothing
    #[arg(long, conflicts_with_all = ["execute", "output"])]
    pub(super) export: bool,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
pub(super) struct DeleteArguments {
    /// Groups
    #[arg(value_name = "GROUP", required = true)]
    pub(super) names: Vec<String>,
    /// Delete only the offsets of this topic; may be repeated
    #[arg(short, long, value_name = "TOPIC")]
    pub(super) topic: Vec<String>,
    /// Succeed if a group does not exist
    #[arg(long)]
    pub(super) if_exists: bool,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

/// The states of all types of groups, as Kafka names them.
const STATES: &[&str] = &[
    "Assigning",
    "CompletingRebalance",
    "Dead",
    "Empty",
    "NotReady",
    "PreparingRebalance",
    "Reconciling",
    "Stable",
];
const TYPES: &[&str] = &["classic", "consumer", "share", "streams"];

fn state(text: &str) -> Result<String, String> {
    one_of(STATES, text)
}

fn kind(text: &str) -> Result<String, String> {
    one_of(TYPES, text)
}

/// Parses a time to milliseconds since 1970.
fn parse_time(text: &str) -> Result<i64, String> {
    parse_instant(text, now_ms())
}

impl GroupVerb {
    pub(super) fn common(&self) -> &AskArguments {
        match self {
            Self::List(arguments) => &arguments.common,
            Self::Describe(arguments) => &arguments.common,
            Self::Lag(arguments) => &arguments.common,
            Self::Reset(arguments) => &arguments.common,
            Self::Delete(arguments) => &arguments.common,
        }
    }
}
