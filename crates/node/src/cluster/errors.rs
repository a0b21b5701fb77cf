//! What keeps a node out of its cluster.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::format::FORMAT;

/// What is wrong with the identity of a data folder, or with its place in a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The data folder was written by a newer tailrace.
    #[error("{} has format {found}; this tailrace knows up to {FORMAT}: start a newer tailrace", .path.display())]
    NewerFormat {
        /// The file that says so.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// The data folder belongs to another node.
    #[error("{} belongs to node {found}, not {expected}: set node.id={found} or choose another data.dir", .path.display())]
    OtherNode {
        /// The file that says so.
        path: PathBuf,
        /// The node it names.
        found: i32,
        /// The configured node.
        expected: i32,
    },
    /// The file that names the node.
    #[error("cannot {action} {}: {error}", .path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: String,
    },
    /// The folder belongs to a cluster, and the settings say that the node is alone.
    #[error(
        "the data folder belongs to a node of cluster {cluster_id}: set cluster.listen, or choose another data.dir"
    )]
    NotAlone {
        /// The cluster.
        cluster_id: String,
    },
    /// There are seeds, but the folder has a cluster of its own.
    #[error(
        "the data folder holds a cluster of its own ({cluster_id}), which cannot join another one: start with an empty \
         data.dir to join the seeds, or without seeds to let others join this node"
    )]
    HasData {
        /// Its own cluster.
        cluster_id: String,
    },
    /// Other nodes and clients could not be told where this node is.
    #[error("{key}={address} is no address that others can reach: set {instead}")]
    NoAddress {
        /// The setting.
        key: &'static str,
        /// Its value.
        address: SocketAddr,
        /// What to set.
        instead: &'static str,
    },
    /// A cluster refuses this node.
    #[error(transparent)]
    Join(#[from] JoinError),
}

/// Why a node is not let in, ever.
#[derive(Debug, thiserror::Error)]
#[error("{seed} does not let this node join: {reason}")]
pub struct JoinError {
    /// Who said so.
    pub seed: String,
    /// What it said.
    pub reason: String,
}
