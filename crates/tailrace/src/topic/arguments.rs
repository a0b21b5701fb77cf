//! The command line of `tailrace topic`.

use clap::{ArgGroup, Args, Subcommand};
use tailrace_cli::text::pairs::key_value;

use crate::client::AskArguments;

#[derive(Debug, Args)]
pub(crate) struct TopicArguments {
    #[command(subcommand)]
    pub(super) verb: TopicVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum TopicVerb {
    /// Create a topic.
    #[command(after_help = "Examples:\n  tailrace topic create orders\n  \
        tailrace topic create orders --partitions 12 --config retention.ms=604800000 --if-not-exists\n  \
        tailrace topic create orders --subjects 'orders.>'")]
    Create(CreateArguments),
    /// Show the names of all topics.
    List(ListArguments),
    /// Show partitions, leaders, offsets and the settings of the topic.
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
pub(super) struct CreateArguments {
    /// Name: letters, digits, '.', '_' and '-', at most 249
    #[arg(value_name = "NAME")]
    pub(super) name: String,
    /// Number of partitions [default: the server's num.partitions]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub(super) partitions: Option<i32>,
    /// Replicas of each partition [default: the server's default.replication.factor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    pub(super) replication_factor: Option<i16>,
    /// A setting of the topic; may be repeated
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(super) config: Vec<(String, String)>,
    /// Capture what NATS clients publish to these subjects, as in 'orders.>'; comma list, may be repeated
    #[arg(short, long, value_name = "SUBJECTS")]
    pub(super) subjects: Vec<String>,
    /// Succeed if the topic exists already, whatever its partitions and settings
    #[arg(long)]
    pub(super) if_not_exists: bool,
    /// Only check whether it would work
    #[arg(long)]
    pub(super) validate_only: bool,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Also internal topics
    #[arg(long)]
    pub(super) internal: bool,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
pub(super) struct DescribeArguments {
    /// Topics; none for all but internal ones
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// Every setting, not only those set for the topic
    #[arg(long)]
    pub(super) all_configs: bool,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").required(true).multiple(true))]
pub(super) struct AlterArguments {
    /// The topic
    #[arg(value_name = "NAME")]
    pub(super) name: String,
    /// Raise the number of partitions to N: keys may map to other partitions from then on
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..), group = "change")]
    pub(super) partitions: Option<i32>,
    /// Set a key; may be repeated
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = key_value, group = "change")]
    pub(super) config: Vec<(String, String)>,
    /// Capture what NATS clients publish to these subjects and to no others; '' captures nothing
    #[arg(short, long, value_name = "SUBJECTS", group = "change")]
    pub(super) subjects: Vec<String>,
    /// Return a key to the server's default; may be repeated
    #[arg(short, long, value_name = "KEY", group = "change")]
    pub(super) delete_config: Vec<String>,
    /// Only check whether it would work
    #[arg(long)]
    pub(super) validate_only: bool,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
pub(super) struct DeleteArguments {
    /// Topics
    #[arg(value_name = "NAME", required = true)]
    pub(super) names: Vec<String>,
    /// Succeed if a topic does not exist
    #[arg(long)]
    pub(super) if_exists: bool,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

impl TopicVerb {
    pub(super) fn common(&self) -> &AskArguments {
        match self {
            Self::Create(arguments) => &arguments.common,
            Self::List(arguments) => &arguments.common,
            Self::Describe(arguments) => &arguments.common,
            Self::Alter(arguments) => &arguments.common,
            Self::Delete(arguments) => &arguments.common,
        }
    }
}
