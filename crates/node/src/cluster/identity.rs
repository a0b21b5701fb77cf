//! What the data folder stores about its node and its cluster, and how a node enters a cluster at start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailrace_config::BrokerConfig;
use tailrace_metadata::RegisterNode;
use tailrace_types::{NodeId, ReplicaId, TopicId};

use super::errors::ClusterError;
use super::format::{FORMAT, FORMAT_ALONE};
use super::join::{self, Admission, Beginning, Status};
use super::link_user::LinkUser;
use super::meta::{Membership, Meta, MetaFiles};
use super::receiver::Receiver;
use super::registration::reachable;
use crate::controller::topic_partition;
use crate::disk::NodeDisk;
use tailrace_env::metrics::Metrics;
use tailrace_env::random;
use tailrace_peers::{Identity, LEVELS, PeerNode, PeerOptions, PeerTls, Peers, Port};

/// The identity of an open data folder.
pub(crate) struct Own {
    data_dir: PathBuf,
    meta: Meta,
    files: MetaFiles,
}

impl Own {
    /// Reads the file that names the node and its cluster. Writes it in a new folder.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub(crate) fn open(disk: &NodeDisk, data_dir: &Path, node: NodeId) -> Result<Self, ClusterError> {
        let (data_dir, files) = (data_dir.to_owned(), MetaFiles::of(disk, data_dir));
        let Some(meta) = files.read()? else {
            let cluster_id = TopicId::from_random(random::bytes16()).to_string();
            let (format, node_id) = (FORMAT_ALONE, node.get());
            let meta = Meta { format, node_id, cluster_id, directory: None, cluster: None };
            files.write(&meta)?;
            return Ok(Self { data_dir, meta, files });
        };
        if meta.node_id != node.get() {
            let path = files.path;
            return Err(ClusterError::OtherNode { path, found: meta.node_id, expected: node.get() });
        }
        Ok(Self { data_dir, meta, files })
    }

    /// Returns the id of the cluster that the node belongs to. A standalone server has an id of its own.
    pub(crate) fn cluster_id(&self) -> &str {
        &self.meta.cluster_id
    }

    /// Checks that the settings may make this a standalone server.
    ///
    /// # Errors
    /// [`ClusterError::NotAlone`] if the folder belongs to a member of a cluster.
    pub(crate) fn may_be_alone(&self) -> Result<(), ClusterError> {
        match self.meta.cluster {
            Some(_) => Err(ClusterError::NotAlone { cluster_id: self.meta.cluster_id.clone() }),
            None => Ok(()),
        }
    }

    /// Returns this node's replica of the metadata log and the founders of that log. `None` unless it is a
    /// member of a cluster.
    pub(crate) fn place(&self) -> Option<(ReplicaId, Vec<ReplicaId>)> {
        let place = self.meta.cluster.as_ref()?;
        Some((ReplicaId(place.replica), place.founders.iter().copied().map(ReplicaId).collect()))
    }

    /// Returns addresses where other nodes may be: the seeds, and the last known addresses.
    pub(crate) fn others(&self, seeds: &[String]) -> Vec<String> {
        let known = self.meta.cluster.iter().flat_map(|place| &place.nodes);
        let others = known.filter(|(node, _)| *node != self.meta.node_id).map(|(_, address)| address);
        let mut addresses = Vec::new();
        for address in seeds.iter().chain(others) {
            if !addresses.contains(address) {
                addresses.push(address.clone());
            }
        }
        addresses
    }

    /// Stores the addresses of the nodes, so that they can be found without the metadata log. Blocks.
    ///
    /// # Errors
    /// [`ClusterError::File`].
    pub(crate) fn remember(&mut self, nodes: Vec<(i32, String)>) -> Result<(), ClusterError> {
        match &mut self.meta.cluster {
            Some(place) if place.nodes != nodes => place.nodes = nodes,
            _ => return Ok(()),
        }
        self.files.write(&self.meta)
    }

    /// Returns the id of the folder. It is stored before any other node sees it: a request to join may be
    /// executed after the process that sent it is gone, and the next process must not look like another disk.
    fn directory(&mut self) -> Result<[u8; 16], ClusterError> {
        let known = self.meta.cluster.as_ref().map(|place| &place.directory).or(self.meta.directory.as_ref());
        if let Some(directory) = known.and_then(|known| TopicId::parse(known)) {
            return Ok(directory.0);
        }
        let directory = TopicId(random::bytes16());
        self.meta.directory = Some(directory.to_string());
        self.files.write(&self.meta)?;
        Ok(directory.0)
    }

    fn belong(&mut self, directory: [u8; 16], admission: Admission) -> Result<(), ClusterError> {
        self.meta.format = FORMAT;
        self.meta.directory = None;
        self.meta.cluster_id = admission.cluster_id;
        self.meta.cluster = Some(Membership {
            directory: TopicId(directory).to_string(),
            replica: admission.replica,
            founders: admission.founders,
            nodes: admission.nodes,
        });
        self.files.write(&self.meta)
    }
}

/// A node in its cluster, before its metadata log is open.
pub struct Entered {
    pub(crate) peers: Peers,
    pub(crate) receiver: Arc<Receiver>,
    pub(crate) directory: [u8; 16],
    /// Its replica of the metadata log.
    pub(crate) replica: ReplicaId,
    /// The founding members of the metadata log.
    pub(crate) founders: Vec<ReplicaId>,
    /// Where it listens for other nodes.
    pub(crate) bound: SocketAddr,
    /// The address that it announces to other nodes.
    pub(crate) address: String,
    /// It joined at this start.
    pub(crate) is_new: bool,
}

impl Entered {
    /// Reports whether this node is a founder of the cluster.
    pub(crate) fn founds(&self) -> bool {
        self.founders.contains(&self.replica)
    }
}

/// Takes the node's place in its cluster, its old one or a new one. Waits for as long as no node lets it in.
///
/// `registration` says how clients reach the node, and whether to replace its replica of the metadata log.
/// This function fills in the rest.
///
/// # Errors
/// [`ClusterError`].
pub(crate) async fn enter(
    own: &mut Own,
    config: &BrokerConfig,
    port: Port,
    tls: Option<Arc<PeerTls>>,
    metrics: &Metrics,
    link_user: Option<Arc<dyn LinkUser>>,
    registration: RegisterNode,
) -> Result<Entered, ClusterError> {
    let bound = port.address().map_err(|error| ClusterError::File {
        action: "listen for",
        path: PathBuf::from("cluster.listen"),
        error: error.to_string(),
    })?;
    let address = match config.tailrace_cluster_advertised.as_str() {
        "" => reachable("cluster.listen", bound, "tailrace.cluster.advertised")?,
        advertised => advertised.to_owned(),
    };
    let before = own.meta.cluster.clone();
    let directory = own.directory()?;
    let registration = RegisterNode { directory, cluster: address.clone(), ..registration };
    // Until it has another replica it takes part in nothing. The others should find that the old replica is
    // gone.
    let known = before.clone().filter(|_| !registration.renews);
    let identity = Identity {
        node: config.node(),
        directory,
        instance: random::bytes16(),
        cluster_id: known.as_ref().map(|_| own.cluster_id().to_owned()),
        levels: LEVELS,
    };
    let peers = Peers::new(options(config), identity, tls, metrics);
    if let Some(link_user) = &link_user {
        link_user.connect(peers.clone());
    }
    let receiver = Arc::new(Receiver::new(link_user));
    let cluster_id = known.as_ref().map(|_| own.cluster_id().to_owned());
    receiver.set_status(Status { node: config.node_id, cluster_id, address: Some(address.clone()) });
    drop(peers.serve(port, Arc::clone(&receiver) as _));
    let is_new = known.is_none();
    if let Some(before) = before.filter(|_| registration.renews) {
        let registration = RegisterNode { replica: Some(ReplicaId(before.replica)), ..registration };
        let others = own.others(&config.tailrace_cluster_seeds);
        let admission = join::renew(&peers, &others, own.cluster_id(), &registration).await?;
        tracing::info!(replica = %ReplicaId(admission.replica), "this node has another replica of the metadata log");
        peers.set_cluster(&admission.cluster_id);
        own.belong(directory, admission)?;
    } else if is_new {
        let admission = begin(own, config, &peers, &registration).await?;
        peers.set_cluster(&admission.cluster_id);
        own.belong(directory, admission)?;
    }
    let Some(place) = own.meta.cluster.clone() else { unreachable!("it belongs to a cluster now") };
    let nodes = place.nodes.into_iter().map(|(node, address)| PeerNode { node: NodeId(node), address });
    peers.set_nodes(nodes.collect());
    Ok(Entered {
        peers,
        receiver,
        directory,
        replica: ReplicaId(place.replica),
        founders: place.founders.into_iter().map(ReplicaId).collect(),
        bound,
        address,
        is_new,
    })
}

async fn begin(
    own: &Own,
    config: &BrokerConfig,
    peers: &Peers,
    registration: &RegisterNode,
) -> Result<Admission, ClusterError> {
    let seeds = &config.tailrace_cluster_seeds;
    let has_data = own.data_dir.join(topic_partition().to_string()).exists();
    let cluster_id = own.cluster_id().to_owned();
    if has_data && !seeds.is_empty() {
        return Err(ClusterError::HasData { cluster_id });
    }
    if !seeds.is_empty()
        && let Beginning::Joins(admission) = join::begin(peers, seeds, registration).await?
    {
        tracing::info!(cluster_id = %admission.cluster_id, "this node joined a cluster");
        return Ok(admission);
    }
    let replica = ReplicaId::new(config.node(), 1).0;
    let nodes = vec![(config.node_id, registration.cluster.clone())];
    tracing::info!(%cluster_id, "this node founds a cluster");
    Ok(Admission { cluster_id, replica, founders: vec![replica], nodes })
}

fn options(config: &BrokerConfig) -> PeerOptions {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    PeerOptions {
        frame_bytes_max: bytes(config.tailrace_cluster_frame_bytes_max.into()),
        queue_bytes_max: bytes(config.tailrace_cluster_queue_bytes_max),
        nats_bytes_max: bytes(config.tailrace_nats_cluster_queue_bytes_max),
        ..PeerOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use tailrace_runtime::disk::LocalDisk;

    use super::*;

    /// A simulated node was killed while it waited to be let in, and was let in at the next start. Then the
    /// controller executed the first request, which named another disk. The node was removed again and waited
    /// forever (seed 362).
    #[test]
    fn a_folder_keeps_its_id_from_the_first_request_on() {
        tailrace_runtime::install();
        let folder = TempDir::new().unwrap();
        let open = || Own::open(&NodeDisk::new(LocalDisk::default()), folder.path(), NodeId(3)).unwrap();
        let asked_with = open().directory().unwrap();
        assert_eq!(open().directory().unwrap(), asked_with, "the node was killed before it had an answer");
        let mut own = open();
        let admission = Admission {
            cluster_id: own.cluster_id().to_owned(),
            replica: ReplicaId::new(NodeId(3), 2).0,
            founders: vec![ReplicaId::new(NodeId(1), 1).0],
            nodes: vec![(1, "127.0.0.1:1".to_owned()), (3, "127.0.0.1:3".to_owned())],
        };
        own.belong(asked_with, admission).unwrap();
        assert_eq!(open().directory().unwrap(), asked_with);
    }
}
