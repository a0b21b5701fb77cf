//! The nodes of a cluster and the connections to them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tailrace_kafka_wire::messages::find_coordinator_response::Coordinator;
use tailrace_kafka_wire::messages::metadata_request::MetadataRequestTopic;
use tailrace_kafka_wire::messages::{FindCoordinatorRequest, MetadataRequest, MetadataResponse};

use super::tls::Tls;
use super::{ClientError, ConnectArguments, Connection, address, check};

/// First version of FindCoordinator that asks for several groups.
const COORDINATOR_KEYS_FROM: i16 = 4;

/// What is known of a cluster. One connection per node, opened when it is needed.
#[derive(Debug)]
pub(crate) struct Cluster {
    bootstrap: Vec<String>,
    timeout: Duration,
    tls: Option<Tls>,
    /// Address by node id, as the newest metadata has it.
    nodes: BTreeMap<i32, String>,
    controller: i32,
    connections: HashMap<String, Arc<Connection>>,
}

impl Cluster {
    /// Connects to the first bootstrap server that answers.
    pub(crate) async fn connect(arguments: &ConnectArguments) -> Result<Self, ClientError> {
        let bootstrap = arguments.bootstrap.clone();
        let (nodes, connections) = (BTreeMap::new(), HashMap::new());
        let (timeout, tls) = (arguments.timeout, arguments.tls.load()?);
        let mut cluster = Self { bootstrap, timeout, tls, nodes, controller: -1, connections };
        cluster.any().await?;
        Ok(cluster)
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// A connection to some node: one that is open, or the first that can be opened.
    pub(crate) async fn any(&mut self) -> Result<Arc<Connection>, ClientError> {
        if let Some(open) = self.connections.values().find(|connection| !connection.is_closed()) {
            return Ok(Arc::clone(open));
        }
        let addresses: Vec<String> = self.bootstrap.iter().chain(self.nodes.values()).cloned().collect();
        let mut first_error = None;
        for address in addresses {
            match self.open(address).await {
                Ok(connection) => return Ok(connection),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or(ClientError::Connect {
            address: "any server".to_owned(),
            reason: "no address was given".to_owned(),
        }))
    }

    /// The connection to a node that metadata named.
    pub(crate) async fn node(&mut self, id: i32) -> Result<Arc<Connection>, ClientError> {
        let address = self.nodes.get(&id).cloned().ok_or(ClientError::NoNode(id))?;
        match self.connections.get(&address) {
            Some(open) if !open.is_closed() => Ok(Arc::clone(open)),
            _ => self.open(address).await,
        }
    }

    /// The connection to the controller, which changes topics. Where none is named, any node passes the request on.
    pub(crate) async fn controller(&mut self) -> Result<Arc<Connection>, ClientError> {
        self.metadata(Some(&[]), false).await?;
        if self.nodes.contains_key(&self.controller) {
            self.node(self.controller).await
        } else {
            self.any().await
        }
    }

    /// The ids of the nodes, as the newest metadata has them.
    pub(crate) fn node_ids(&self) -> Vec<i32> {
        self.nodes.keys().copied().collect()
    }

    /// The node that coordinates a group, and the connection to it.
    pub(crate) async fn coordinator(&mut self, group: &str) -> Result<(i32, Arc<Connection>), ClientError> {
        let connection = self.any().await?;
        let version = connection.version::<FindCoordinatorRequest>()?;
        let mut request = FindCoordinatorRequest::default();
        if version >= COORDINATOR_KEYS_FROM {
            request.coordinator_keys = vec![group.to_owned()];
        } else {
            request.key = group.to_owned();
        }
        let answer = connection.begin(&request, version).await?.answer().await?;
        let found = answer.coordinators.into_iter().next().unwrap_or(Coordinator {
            node_id: answer.node_id,
            host: answer.host,
            port: answer.port,
            error_code: answer.error_code,
            error_message: answer.error_message,
            ..Default::default()
        });
        let what = || format!("cannot find the coordinator of group '{group}'");
        check(found.error_code, found.error_message.as_ref(), what)?;
        self.nodes.insert(found.node_id, address::join(&found.host, found.port));
        Ok((found.node_id, self.node(found.node_id).await?))
    }

    /// Asks for metadata: of all topics, or of those named.
    pub(crate) async fn metadata(
        &mut self,
        topics: Option<&[String]>,
        create: bool,
    ) -> Result<MetadataResponse, ClientError> {
        let connection = self.any().await?;
        let named = |name: &String| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
        let request = MetadataRequest {
            topics: topics.map(|names| names.iter().map(named).collect()),
            allow_auto_topic_creation: create,
            ..Default::default()
        };
        // Below version 4 the field cannot be left out: the server's own setting decides there.
        let version = connection.version::<MetadataRequest>()?;
        let request = MetadataRequest { allow_auto_topic_creation: create || version < 4, ..request };
        let answer = connection.begin(&request, version).await?.answer().await?;
        self.controller = answer.controller_id;
        self.nodes =
            answer.brokers.iter().map(|node| (node.node_id, address::join(&node.host, node.port))).collect();
        Ok(answer)
    }

    /// Makes the next use of a node connect anew. Requests in flight end on their own.
    pub(crate) fn forget_connections(&mut self) {
        self.connections.clear();
    }

    async fn open(&mut self, address: String) -> Result<Arc<Connection>, ClientError> {
        let connection = Arc::new(Connection::open(&address, self.timeout, self.tls.as_ref()).await?);
        self.connections.insert(address, Arc::clone(&connection));
        Ok(connection)
    }
}
