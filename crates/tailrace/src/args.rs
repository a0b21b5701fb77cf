//! The command line, as clap reads it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tailrace_cli::output::Output;

use crate::acl::AclArguments;
use crate::bench::BenchArguments;
use crate::cluster::ClusterArguments;
use crate::consume::ConsumeArguments;
use crate::group::GroupArguments;
use crate::nats::{PublishArguments, ReplyArguments, RequestArguments, SubscribeArguments, TopArguments};
use crate::offline::LogArguments;
use crate::produce::ProduceArguments;
use crate::quota::QuotaArguments;
use crate::token::TokenArguments;
use crate::topic::TopicArguments;
use crate::txn::TxnArguments;
use crate::user::UserArguments;

/// What `--version` prints; `-V` prints the version alone.
const LONG_VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), "\ncommit: ", env!("BUILT_FROM_SHOWN"), "\nbuild: ", env!("BUILT_AS"));

/// A message system in one binary: a durable log for Kafka clients, and a bus for NATS clients on top of it.
#[derive(Debug, Parser)]
#[command(version, long_version = LONG_VERSION)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
#[command(after_help = "Without a verb, tailrace serves. In sixty seconds:\n  \
    tailrace serve &\n  \
    tailrace topic create orders\n  \
    seq 1000 | tailrace produce orders\n  \
    tailrace consume orders\n\n\
    Exit status: 0 done, 1 failed, 2 wrong usage, 130 and 143 ended by SIGINT and SIGTERM.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) serve: ServeArguments,
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the server.
    Serve(ServeArguments),
    /// Create, show, change and delete topics.
    Topic(TopicArguments),
    /// Show consumer groups and their lag, set their offsets, delete them.
    Group(GroupArguments),
    /// Show transactions, and abort hanging ones.
    Txn(TxnArguments),
    /// Show nodes and unhealthy partitions, move replicas, decommission a node, scrub the disks.
    Cluster(ClusterArguments),
    /// Add, show, change, disable and remove users.
    User(UserArguments),
    /// Make, show, renew and end delegation tokens.
    Token(TokenArguments),
    /// Add, show, remove and explain rules about what users may do.
    Acl(AclArguments),
    /// Set, show and remove quotas of users, client ids and addresses.
    Quota(QuotaArguments),
    /// Send lines or files from standard input to a topic.
    Produce(ProduceArguments),
    /// Write the records of a topic to standard output.
    Consume(ConsumeArguments),
    /// Publish messages to a NATS subject.
    Pub(PublishArguments),
    /// Show messages published to NATS subjects.
    Sub(SubscribeArguments),
    /// Send a request over NATS, and show the reply.
    Request(RequestArguments),
    /// Reply to requests over NATS.
    Reply(ReplyArguments),
    /// Show live connections and rates in the terminal.
    Top(TopArguments),
    /// Inspect the files of a data folder, read-only; no server is needed.
    Log(LogArguments),
    /// Measure the latency of this and other message systems.
    #[cfg_attr(not(feature = "bench"), command(hide = true))]
    Bench(BenchArguments),
    /// Check or show the configuration without starting the server.
    Config(ConfigArguments),
}

/// Where settings come from. Later ones win: defaults, the file, TAILRACE_* variables, flags.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServeArguments {
    /// Read settings from this TOML file.
    #[arg(long, value_name = "FILE", env = "TAILRACE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Folder for all data [default: ./tailrace-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<String>,
    /// Address of the Kafka listener; port 0 picks a free one [default: 127.0.0.1:9092]
    #[arg(long, value_name = "ADDR")]
    pub(crate) kafka: Option<String>,
    /// Address of the NATS listener, or `off`; port 0 picks a free one [default: 127.0.0.1:4222]
    #[arg(long, value_name = "ADDR")]
    pub(crate) nats: Option<String>,
    /// Address of the HTTP listener, for health and metrics [default: 127.0.0.1:8222]
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// Id of this node [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) node_id: Option<i32>,
    /// Address for other nodes of a cluster; port 0 picks a free one [default: off, a standalone node]
    #[arg(long, value_name = "ADDR")]
    pub(crate) cluster_listen: Option<String>,
    /// Address of a node of the cluster to join; may be repeated. With none, an empty data folder starts a
    /// new cluster.
    #[arg(long = "seed", value_name = "ADDR")]
    pub(crate) seeds: Vec<String>,
    /// Set any key of docs/configuration.md; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    pub(crate) verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Check that the configuration is valid; exit status 1 if it is not.
    Check(ServeArguments),
    /// Show every setting, its value, and where the value comes from.
    Print {
        #[command(flatten)]
        settings: ServeArguments,
        /// Only settings that differ from their defaults.
        #[arg(long)]
        changed: bool,
        /// Text or JSON.
        #[arg(short, long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// Show the reference of all settings as Markdown.
    Reference,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Columns that help is wrapped at if the terminal is at least as wide, or its width is unknown.
    const COLUMNS: usize = 100;

    /// Help is wrapped to the terminal's width. Line breaks inside a paragraph would show up in the middle of
    /// lines.
    fn check(command: &clap::Command, path: &str, wrong: &mut Vec<String>) {
        let path = format!("{path} {}", command.get_name());
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
        for pair in lines.windows(2).filter(|pair| is_prose(pair[0]) && is_prose(pair[1])) {
            wrong.push(format!("{path}: a line end behind {:?}", pair[0]));
        }
        // Examples must not be wrapped.
        for line in lines.iter().filter(|line| line.starts_with(' ') && line.chars().count() > COLUMNS) {
            wrong.push(format!("{path}: longer than {COLUMNS} columns: {line:?}"));
        }
        command.get_subcommands().for_each(|verb| check(verb, &path, wrong));
    }

    #[test]
    fn help_breaks_its_lines_where_the_terminal_does() {
        let mut wrong = Vec::new();
        check(&Arguments::command(), "", &mut wrong);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
