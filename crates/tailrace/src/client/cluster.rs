//! The nodes of a cluster, and the connections to them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tailrace_kafka_wire::messages::find_coordinator_response::Coordinator;
use tailrace_kafka_wire::messages::metadata_request::MetadataRequestTopic;
use tailrace_kafka_wire::messages::{
    FindCoordinatorRequest, MetadataRequest, MetadataResponse, SaslHandshakeRequest,
};

use super::sasl::{Login, demanded_mechanisms};
use super::tls::Tls;
use super::{ClientError, ConnectArguments, Connection, address, check};

/// First version of FindCoordinator that takes several groups.
const COORDINATOR_KEYS_FROM: i16 = 4;

/// What this client knows of a cluster. There is one connection per node, opened when it is first needed.
#[derive(Debug)]
pub(crate) struct Cluster {
    bootstrap: Vec<String>,
    timeout: Duration,
    tls: Option<Tls>,
    /// Every connection logs in with it.
    login: Option<Login>,
    /// Address by node id, from the newest metadata.
    nodes: BTreeMap<i32, String>,
    controller: i32,
    connections: HashMap<String, Arc<Connection>>,
}

impl Cluster {
    /// Connects to the first bootstrap server that answers, and logs in if a user was named.
    pub(crate) async fn connect(arguments: &ConnectArguments) -> Result<Self, ClientError> {
        let bootstrap = arguments.bootstrap.clone();
        let (nodes, connections) = (BTreeMap::new(), HashMap::new());
        let (timeout, tls, login) = (arguments.timeout, arguments.tls.load()?, arguments.sasl.load()?);
        let mut cluster = Self { bootstrap, timeout, tls, login, nodes, controller: -1, connections };
        cluster.any().await?;
        if cluster.login.is_none() {
            cluster.check_admission().await?;
        }
        Ok(cluster)
    }

    /// Notices a server that demands a login. Such a server closes the connection at the first request,
    /// which looks like a fault that may pass.
    async fn check_admission(&mut self) -> Result<(), ClientError> {
        let connection = self.any().await?;
        // Kafka lists this API on every listener, and most servers without users do not list it.
        if !connection.offers::<SaslHandshakeRequest>() {
            return Ok(());
        }
        // Other errors are for the verb, which may try again.
        if !matches!(self.metadata(Some(&[]), false).await, Err(ClientError::Closed { .. })) {
            return Ok(());
        }
        self.forget_connections();
        let address = connection.address().to_owned();
        let Ok(connection) = self.open(address.clone()).await else { return Ok(()) };
        let mechanisms = demanded_mechanisms(&connection).await;
        self.forget_connections();
        match mechanisms {
            Some(mechanisms) => Err(ClientError::LoginDemanded { address, mechanisms }),
            None => Ok(()),
        }
    }

    /// The user of this run, if one was named.
    pub(crate) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns a connection to any node: one that is open, or the first that can be opened. A login that
    /// fails is not tried on other nodes: they have the same users.
    pub(crate) async fn any(&mut self) -> Result<Arc<Connection>, ClientError> {
        if let Some(open) = self.connections.values().find(|connection| !connection.is_closed()) {
            return Ok(Arc::clone(open));
        }
        let addresses: Vec<String> = self.bootstrap.iter().chain(self.nodes.values()).cloned().collect();
        let mut first_error = None;
        for address in addresses {
            match self.open(address).await {
                Ok(connection) => return Ok(connection),
                Err(error @ ClientError::Login { .. }) => return Err(error),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or(ClientError::Connect {
            address: "any server".to_owned(),
            reason: "no address was given".to_owned(),
        }))
    }

    /// Returns the connection to a node from the metadata.
    pub(crate) async fn node(&mut self, id: i32) -> Result<Arc<Connection>, ClientError> {
        let address = self.nodes.get(&id).cloned().ok_or(ClientError::NoNode(id))?;
        match self.connections.get(&address) {
            Some(open) if !open.is_closed() => Ok(Arc::clone(open)),
            _ => self.open(address).await,
        }
    }

    /// Returns the connection to the controller, which changes topics. If metadata names none, any node will
    /// do, since nodes forward these requests.
    pub(crate) async fn controller(&mut self) -> Result<Arc<Connection>, ClientError> {
        self.metadata(Some(&[]), false).await?;
        if self.nodes.contains_key(&self.controller) {
            self.node(self.controller).await
        } else {
            self.any().await
        }
    }

    /// The ids of the nodes in the newest metadata.
    pub(crate) fn node_ids(&self) -> Vec<i32> {
        self.nodes.keys().copied().collect()
    }

    /// Returns the node that coordinates a group, and the connection to it.
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

    /// Fetches metadata of all topics, or of the given ones.
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
        // The field does not exist below version 4: there the server's own setting decides.
        let version = connection.version::<MetadataRequest>()?;
        let request = MetadataRequest { allow_auto_topic_creation: create || version < 4, ..request };
        let answer = connection.begin(&request, version).await?.answer().await?;
        self.controller = answer.controller_id;
        self.nodes =
            answer.brokers.iter().map(|node| (node.node_id, address::join(&node.host, node.port))).collect();
        Ok(answer)
    }

    /// Drops all connections, so that the next use of a node connects again. Requests in flight finish on
    /// their own.
    pub(crate) fn forget_connections(&mut self) {
        self.connections.clear();
    }

    async fn open(&mut self, address: String) -> Result<Arc<Connection>, ClientError> {
        let connection = Connection::open(&address, self.timeout, self.tls.as_ref()).await?;
        if let Some(login) = &self.login {
            login.run(&connection).await?;
        }
        let connection = Arc::new(connection);
        self.connections.insert(address, Arc::clone(&connection));
        Ok(connection)
    }
}
