//! A small Kafka client for the verbs: connections, versions, metadata, retries, and the calls that several
//! verbs need.
//!
//! It works with tailrace and with Kafka 2.1 or newer: versions are negotiated per connection. Deliberately
//! absent: joining groups, transactions, and anything that outlives one run of the program.

pub(crate) mod address;
mod backlog;
mod cluster;
mod connection;
mod error;
mod groups;
mod offsets;
mod retry;
mod sasl;
#[cfg(test)]
mod tests;
mod tls;
mod topics;

use std::time::Duration;

use clap::Args;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::Output;
use tailrace_cli::text::units::parse_duration;

pub(crate) use backlog::records_between;
pub(crate) use cluster::Cluster;
pub(crate) use connection::Connection;
pub(crate) use error::{ClientError, check};
pub(crate) use groups::{
    Assignment, Group, GroupKind, ListedGroup, Member, Position, commit_offsets, committed_offsets,
    delete_group, delete_offsets, delete_share_offsets, describe_group, find_group, list_groups,
    set_share_offsets, share_offsets,
};
pub(crate) use offsets::{OffsetQuery, list_offsets};
pub(crate) use retry::{Backoff, retrying};
pub(crate) use sasl::{
    LOGIN_PASSWORD_FILE, LOGIN_USER, Login, PageLogin, Password, SALT_BYTES, SaslArguments, ScramMechanism,
    TERMINAL, second_password_name, second_user_name,
};
pub(crate) use tls::{Tls, TlsArguments};
pub(crate) use topics::{
    Partition, RESOURCE_BROKER, RESOURCE_TOPIC, SOURCE_TOPIC, Topic, all_topics, find_topic, find_topics,
    topic_configs, wait_for_topic,
};

/// Which server to talk to, and how patiently.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectArguments {
    /// Server to connect to first; of several, the first that answers
    #[arg(
        short,
        long,
        value_name = "HOST:PORT",
        env = "TAILRACE_BOOTSTRAP",
        value_delimiter = ',',
        default_value = "127.0.0.1:9092",
        value_parser = address::kafka
    )]
    pub(crate) bootstrap: Vec<String>,
    /// Longest wait for one operation, retries included: 500ms, 30s, 2m
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) tls: TlsArguments,
    #[command(flatten)]
    pub(crate) sasl: SaslArguments,
}

/// Arguments of every verb that queries a server and prints the result.
#[derive(Debug, Args)]
pub(crate) struct AskArguments {
    /// Text or JSON
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: ConnectArguments,
}

/// Runs a client verb on one thread: it waits for nothing but the network.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    let result = runtime.block_on(future);
    // Names are resolved on a thread of their own, which may hang for a long time.
    runtime.shutdown_background();
    result
}
