//! The command line of `tailrace cluster`.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use tailrace_cli::failure::Failure;
use tailrace_cli::text::units::{parse_bytes, parse_duration};

use crate::client::{AskArguments, Login, PageLogin, address};
use crate::http::Site;

#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    #[command(subcommand)]
    pub(super) verb: ClusterVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum ClusterVerb {
    /// Show nodes, the controller, unhealthy partitions, and what is in progress.
    #[command(
        after_help = "Examples:\n  tailrace cluster status\n  tailrace cluster status --http 10.0.0.5:8222 -o json"
    )]
    Status(StatusArguments),
    /// Move the replicas of partitions, or change how many there are.
    #[command(
        after_help = "Examples:\n  tailrace cluster reassign --topic orders --replicas 1,2,3 --wait 10m\n  \
        tailrace cluster reassign --topic orders --partition 0 --replicas 4,5,6\n  \
        tailrace cluster reassign --topic orders --replication-factor 3 --throttle 20MiB --wait 1h\n  \
        tailrace cluster reassign --topic orders --cancel"
    )]
    Reassign(ReassignArguments),
    /// Move all replicas off a node, and unregister it once it is stopped.
    #[command(
        after_help = "Examples:\n  tailrace cluster decommission 3\n  tailrace cluster decommission 3 --cancel\n\n\
        After an interruption the moves continue by themselves. The same command waits for them again."
    )]
    Decommission(DecommissionArguments),
    /// Verify the data on the disks of all nodes now, and show what is found.
    #[command(
        after_help = "Each node reads at most tailrace.scrub.bytes.per.second, 4 MiB/s by default: a terabyte takes three days \
        then. --rate raises or lowers that for this round alone.\n\nExamples:\n  \
        tailrace cluster scrub\n  tailrace cluster scrub --topic orders --rate 64MiB\n  \
        tailrace cluster scrub --rate 0 -o json"
    )]
    Scrub(ScrubArguments),
    /// Show the damage in a topic while its nodes run, and give up the records that no replica still has.
    #[command(
        after_help = "Bytes that are put back in place are served again within seconds, without this command. `tailrace log repair` \
        restores them from a copy while the node is stopped. Giving up loses the records and keeps their offsets; the damaged \
        bytes are kept in a separate file. Exit status 1 if some damage remains.\n\nExamples:\n  \
        tailrace cluster repair --topic orders\n  tailrace cluster repair --topic orders --give-up --execute"
    )]
    Repair(RepairArguments),
}

/// Address of the HTTP pages, which show what Kafka's protocol cannot express.
#[derive(Debug, Args)]
pub(super) struct PageArguments {
    /// HTTP port of a node, for /clusterz; the other nodes are found from there
    #[arg(long, value_name = "HOST:PORT", env = "TAILRACE_HTTP_PORT", default_value = "127.0.0.1:8222", value_parser = address::http)]
    pub(super) http: String,
}

impl PageArguments {
    /// The pages, for this user.
    pub(super) fn site(&self, common: &AskArguments, login: Option<&Login>) -> Result<Site, Failure> {
        let (tls, login) = (common.connect.tls.load()?, login.map(PageLogin::new).transpose()?);
        Ok(Site { address: self.http.clone(), tls, login, option: "--http" })
    }
}

#[derive(Debug, Args)]
pub(super) struct StatusArguments {
    #[command(flatten)]
    pub(super) pages: PageArguments,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("how").required(true))]
pub(super) struct ReassignArguments {
    /// Topic; may be repeated
    #[arg(short, long, value_name = "NAME", required = true)]
    pub(super) topic: Vec<String>,
    /// Only these partitions; comma list, may be repeated
    #[arg(short, long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) partition: Vec<i32>,
    /// The nodes for each partition, the preferred leader first
    #[arg(short, long, value_name = "NODES", value_delimiter = ',', group = "how", value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) replicas: Vec<i32>,
    /// How many replicas each partition is to have; existing ones stay where they are if possible
    #[arg(long, value_name = "N", group = "how", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) replication_factor: Option<u16>,
    /// Cancel the moves in progress, and return the partitions to where they were
    #[arg(long, group = "how")]
    pub(super) cancel: bool,
    /// Bytes per second that each node copies for this, as in 20MiB; lifted at the end of --wait
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(super) throttle: Option<u64>,
    /// Wait until it is done, at most this long
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) wait: Option<Duration>,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
pub(super) struct DecommissionArguments {
    /// Node id
    #[arg(value_name = "NODE", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) node: i32,
    /// Accept fewer replicas if no other node can take them
    #[arg(long)]
    pub(super) fewer: bool,
    /// Cancel the moves in progress: the replicas stay on the node
    #[arg(long)]
    pub(super) cancel: bool,
    /// Longest wait for the whole operation
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    pub(super) wait: Duration,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
pub(super) struct ScrubArguments {
    /// Only this topic
    #[arg(short, long, value_name = "NAME")]
    pub(super) topic: Option<String>,
    /// Bytes per second that each node reads in this round, as in 64MiB; 0: as fast as the disk allows
    /// [default: the nodes' tailrace.scrub.bytes.per.second]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(super) rate: Option<u64>,
    /// Longest wait for the end; the nodes continue after it [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) wait: Option<Duration>,
    #[command(flatten)]
    pub(super) pages: PageArguments,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

#[derive(Debug, Args)]
pub(super) struct RepairArguments {
    /// Topic
    #[arg(short, long, value_name = "NAME")]
    pub(super) topic: String,
    /// Only this partition
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) partition: Option<i32>,
    /// Give up records that no replica still has: their offsets stay, without records
    #[arg(long)]
    pub(super) give_up: bool,
    /// Do it, instead of only showing the damage
    #[arg(long)]
    pub(super) execute: bool,
    /// Longest wait for the nodes
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_duration)]
    pub(super) wait: Duration,
    #[command(flatten)]
    pub(super) pages: PageArguments,
    #[command(flatten)]
    pub(super) common: AskArguments,
}

impl ClusterVerb {
    pub(super) fn common(&self) -> &AskArguments {
        match self {
            Self::Status(arguments) => &arguments.common,
            Self::Reassign(arguments) => &arguments.common,
            Self::Decommission(arguments) => &arguments.common,
            Self::Scrub(arguments) => &arguments.common,
            Self::Repair(arguments) => &arguments.common,
        }
    }
}
