//! Errors that keep a node out of its cluster.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::format::FORMAT;

/// A problem with the identity of a data folder, or with its place in a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The data folder was written by a newer tailrace.
    #[error("{} has format {found}; this tailrace reads up to {FORMAT}: start a newer tailrace", .path.display())]
    NewerFormat {
        /// The file that records the format.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// The data folder belongs to another node.
    #[error("{} belongs to node {found}, not {expected}: set node.id={found} or choose another data.dir", .path.display())]
    OtherNode {
        /// The file that names the node.
        path: PathBuf,
        /// The node it names.
        found: i32,
        /// The configured node.
        expected: i32,
    },
    /// The file that names the node cannot be read or written.
    #[error("cannot {action} {}: {error}", .path.display())]
    File {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's message.
        error: String,
    },
    /// The folder belongs to a cluster, but the settings describe a standalone server.
    #[error(
        "the data folder belongs to a node of cluster {cluster_id}: set cluster.listen, or choose another data.dir"
    )]
    NotAlone {
        /// The cluster.
        cluster_id: String,
    },
    /// The settings name seeds, but the folder already has a cluster of its own.
    #[error(
        "the data folder holds a cluster of its own ({cluster_id}), which cannot join another one: start with an empty \
         data.dir to join the seeds, or without seeds to let others join this node"
    )]
    HasData {
        /// Its own cluster.
        cluster_id: String,
    },
    /// There is no address that this node could announce to other nodes and clients.
    #[error("{key}={address} is not an address that others can reach: set {instead}")]
    NoAddress {
        /// The setting.
        key: &'static str,
        /// Its value.
        address: SocketAddr,
        /// The setting to use instead.
        instead: &'static str,
    },
    /// A cluster refuses this node.
    #[error(transparent)]
    Join(#[from] JoinError),
}

/// A final refusal to let a node join.
#[derive(Debug, thiserror::Error)]
#[error("{seed} does not let this node join: {reason}")]
pub struct JoinError {
    /// The node that refused.
    pub seed: String,
    /// Its reason.
    pub reason: String,
}
