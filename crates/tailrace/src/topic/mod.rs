//! `tailrace topic ...`: make, show, change and delete topics.

mod alter;
mod create;
mod delete;
mod describe;
mod list;

use std::process::ExitCode;

use clap::{ArgGroup, Args, Subcommand};
use tailrace_cli::failure::Failure;
use tailrace_cli::text::pairs::key_value;

use crate::client::{AskArguments, Cluster, block_on};

/// How long the server may take for a change, as a request says it.
const CHANGE_TIMEOUT_MS: i32 = 30_000;

#[derive(Debug, Args)]
pub(crate) struct TopicArguments {
    #[command(subcommand)]
    verb: TopicVerb,
}

#[derive(Debug, Subcommand)]
enum TopicVerb {
    /// Make a topic.
    #[command(after_help = "Examples:\n  tailrace topic create orders\n  \
        tailrace topic create orders --partitions 12 --config retention.ms=604800000 --if-not-exists\n  \
        tailrace topic create orders --subjects 'orders.>'")]
    Create(CreateArguments),
    /// Show the names of all topics.
    List(ListArguments),
    /// Show partitions, leaders, offsets and the configuration that was set.
    #[command(after_help = "Examples:\n  tailrace topic describe orders\n  tailrace topic describe -o json")]
    Describe(DescribeArguments),
    /// Change the configuration, or add partitions.
    #[command(after_help = "Examples:\n  tailrace topic alter orders --config retention.ms=86400000\n  \
        tailrace topic alter orders --delete-config retention.ms --partitions 24\n  \
        tailrace topic alter orders --subjects 'orders.eu.>,orders.us.>'")]
    Alter(AlterArguments),
    /// Delete topics with all their records.
    Delete(DeleteArguments),
}

#[derive(Debug, Args)]
struct CreateArguments {
    /// Name: letters, digits, '.', '_' and '-', at most 249
    #[arg(value_name = "NAME")]
    name: String,
    /// Number of partitions [default: the server's num.partitions]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Copies of each partition [default: the server's default.replication.factor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replication_factor: Option<i16>,
    /// A setting of the topic; may be repeated
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = key_value)]
    config: Vec<(String, String)>,
    /// Capture what NATS clients publish to these subjects, as in 'orders.>'; comma list, may be repeated
    #[arg(short, long, value_name = "SUBJECTS")]
    subjects: Vec<String>,
    /// Succeed if the topic is there already, whatever its partitions and settings
    #[arg(long)]
    if_not_exists: bool,
    /// Only say whether it would work
    #[arg(long)]
    validate_only: bool,
    #[command(flatten)]
    common: AskArguments,
}

#[derive(Debug, Args)]
struct ListArguments {
    /// Also those the server keeps for itself
    #[arg(long)]
    internal: bool,
    #[command(flatten)]
    common: AskArguments,
}

#[derive(Debug, Args)]
struct DescribeArguments {
    /// Topics; without any, all but those the server keeps for itself
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Every setting, not only those set for the topic
    #[arg(long)]
    all_configs: bool,
    #[command(flatten)]
    common: AskArguments,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").required(true).multiple(true))]
struct AlterArguments {
    /// The topic
    #[arg(value_name = "NAME")]
    name: String,
    /// Raise the number of partitions to N: keys may map to other partitions from then on
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..), group = "change")]
    partitions: Option<i32>,
    /// Set a key; may be repeated
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = key_value, group = "change")]
    config: Vec<(String, String)>,
    /// Capture what NATS clients publish to these subjects and to no others; '' captures nothing
    #[arg(short, long, value_name = "SUBJECTS", group = "change")]
    subjects: Vec<String>,
    /// Return a key to the server's default; may be repeated
    #[arg(short, long, value_name = "KEY", group = "change")]
    delete_config: Vec<String>,
    /// Only say whether it would work
    #[arg(long)]
    validate_only: bool,
    #[command(flatten)]
    common: AskArguments,
}

#[derive(Debug, Args)]
struct DeleteArguments {
    /// Topics
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Succeed if a topic is not there
    #[arg(long)]
    if_exists: bool,
    #[command(flatten)]
    common: AskArguments,
}

impl TopicVerb {
    fn common(&self) -> &AskArguments {
        match self {
            Self::Create(arguments) => &arguments.common,
            Self::List(arguments) => &arguments.common,
            Self::Describe(arguments) => &arguments.common,
            Self::Alter(arguments) => &arguments.common,
            Self::Delete(arguments) => &arguments.common,
        }
    }
}

pub(crate) fn run(arguments: &TopicArguments) -> Result<ExitCode, Failure> {
    let verb = &arguments.verb;
    block_on(async {
        let mut cluster = Cluster::connect(&verb.common().connect).await?;
        match verb {
            TopicVerb::Create(arguments) => create::run(&mut cluster, arguments).await,
            TopicVerb::List(arguments) => list::run(&mut cluster, arguments).await,
            TopicVerb::Describe(arguments) => describe::run(&mut cluster, arguments).await,
            TopicVerb::Alter(arguments) => alter::run(&mut cluster, arguments).await,
            TopicVerb::Delete(arguments) => delete::run(&mut cluster, arguments).await,
        }
    })
}

/// The setting that `--subjects` stands for, if it was given.
fn captured(subjects: &[String]) -> Option<(String, String)> {
    (!subjects.is_empty()).then(|| ("tailrace.subjects".to_owned(), subjects.join(",")))
}
