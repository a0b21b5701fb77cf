//! Who makes a request of the node, through which door, and how long the caller waits.
//!
//! A front makes a [`Caller`] for each connection and passes it down with each request. The node's log then
//! names the caller that was refused or that changed something, and the node starts nothing for a caller
//! whose deadline has passed. So far a caller decides about permissions in one case only: questions that only
//! nodes may ask (`ask::only_nodes`).
//!
//! # What takes one
//!
//! Everything that a front has the node do: append, read, change metadata, ask a coordinator or another node,
//! use share-partitions. It is the parameter after the node, or the first if there is none. Timers, and work
//! that the node does once a change is committed, act for no client and use [`Caller::internal`]. Work that
//! was started for a caller and must be completed uses [`Caller::patient`].
//!
//! Looking at memory takes none: the image, the table of topics, the leader, the end of a partition, its
//! settings. Neither does waiting for a commit, nor the table of share sessions, which belongs to the front.
//!
//! A coordinator refuses a request whose caller is late by the time its turn comes. The search for the
//! controller lasts no longer than the caller waits. A partition appends what it is given: the front checks
//! first whether the caller is late.
//!
//! A question to another node does not carry its caller: there, the caller is this node.
//!
//! # Which callers are nodes
//!
//! Only the receiver of the links makes a caller that is a node ([`Caller::on_link`], which is not public),
//! from what the handshake of the link has proved. A front can make clients and users, and nothing that takes
//! a caller takes a principal beside it. So no client can pass for a node, whatever a front gets wrong.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use tailrace_env::time::{Duration, Elapsed, Instant, sleep_until, timeout_at};
use tailrace_identity::Principal;
use tailrace_types::NodeId;

/// The origin of a request. Cloning it allocates nothing, because the user name is shared.
#[derive(Clone, Debug)]
pub struct Caller {
    principal: Principal,
    address: Option<SocketAddr>,
    door: Door,
    deadline: Option<Instant>,
}

/// How a request entered the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The Kafka listener.
    Kafka,
    /// The NATS listener, or a WebSocket.
    Nats,
    /// The HTTP listener.
    Http,
    /// The port for other nodes.
    Peers,
    /// No listener: the program that embeds the node.
    Inside,
}

static INTERNAL: Caller =
    Caller { principal: Principal::Internal, address: None, door: Door::Inside, deadline: None };

impl Caller {
    /// Makes a client of which only the address is known.
    pub fn client(door: Door, address: SocketAddr) -> Self {
        Self { principal: Principal::Anonymous, address: Some(address), door, deadline: None }
    }

    /// Returns this caller, authenticated as a user.
    #[must_use]
    pub fn as_user(self, name: Arc<str>) -> Self {
        Self { principal: Principal::User(name), ..self }
    }

    /// Returns the caller for the node itself, or for the program that embeds it.
    pub fn internal() -> &'static Self {
        &INTERNAL
    }

    /// Makes the caller at the other end of a link. It is anonymous if `from` is `None`, which means that it
    /// is not a member of the cluster. Only for the receiver of the links, see above.
    pub(crate) fn on_link(from: Option<NodeId>) -> Self {
        let principal = from.map_or(Principal::Anonymous, Principal::Node);
        Self { principal, address: None, door: Door::Peers, deadline: None }
    }

    /// Makes the client of another node, which passes on its command.
    pub(crate) fn passed_on(user: Option<Arc<str>>, address: SocketAddr) -> Self {
        let client = Self::client(Door::Peers, address);
        match user {
            Some(name) => client.as_user(name),
            None => client,
        }
    }

    /// Returns this caller with a deadline `time` from now.
    #[must_use]
    pub fn within(&self, time: Duration) -> Self {
        Self { deadline: Some(Instant::now() + time), ..self.clone() }
    }

    /// Returns this caller without a deadline, for work that was started and must be completed.
    pub(crate) fn patient(&self) -> Self {
        Self { deadline: None, ..self.clone() }
    }

    /// Returns the user and the address, if this is a client.
    pub(crate) fn as_client(&self) -> Option<(Option<String>, SocketAddr)> {
        match &self.principal {
            Principal::User(name) => Some((Some(name.to_string()), self.address?)),
            Principal::Anonymous => Some((None, self.address?)),
            Principal::Node(_) | Principal::Internal => None,
        }
    }

    /// Returns how the request entered the node.
    pub(crate) fn door(&self) -> Door {
        self.door
    }

    /// Returns the address of a client.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the principal as rules and records name it: `User:alice`, `User:ANONYMOUS`.
    pub fn principal_name(&self) -> String {
        match &self.principal {
            Principal::User(name) => format!("User:{name}"),
            Principal::Anonymous => "User:ANONYMOUS".to_owned(),
            Principal::Node(node) => format!("Node:{node}"),
            Principal::Internal => "Node:this".to_owned(),
        }
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Returns the node that makes the request, if it is a node.
    pub(crate) fn node(&self) -> Option<NodeId> {
        match self.principal {
            Principal::Node(node) => Some(node),
            Principal::Anonymous | Principal::User(_) | Principal::Internal => None,
        }
    }

    /// Returns the caller's deadline. Work that was started before it is still completed.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the earlier of the caller's deadline and `limit` from now.
    pub(crate) fn until(&self, limit: Duration) -> Instant {
        let until = Instant::now() + limit;
        self.deadline.map_or(until, |deadline| deadline.min(until))
    }

    /// Reports whether the caller's deadline has passed.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Resolves at the caller's deadline.
    pub async fn gives_up(&self) {
        match self.deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for `future` until the caller's deadline.
    ///
    /// # Errors
    /// The deadline passed.
    pub async fn wait<F: Future>(&self, future: F) -> Result<F::Output, Elapsed> {
        match self.deadline {
            Some(deadline) => timeout_at(deadline, future).await,
            None => Ok(future.await),
        }
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kafka => "kafka",
            Self::Nats => "nats",
            Self::Http => "http",
            Self::Peers => "peers",
            Self::Inside => "inside",
        })
    }
}

impl fmt::Display for Caller {
    /// For the log: `kafka client 127.0.0.1:5000`, `nats user alice at 127.0.0.1:5000`, `node 2`, `this
    /// node`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address =
            self.address.map(|address| SocketAddr::new(address.ip().to_canonical(), address.port()));
        match (&self.principal, address) {
            (Principal::Anonymous, Some(address)) => write!(f, "{} client {address}", self.door),
            (Principal::Anonymous, None) => write!(f, "{} client", self.door),
            // A name may contain any characters. A log entry must stay on one line.
            (Principal::User(name), Some(address)) => {
                write!(f, "{} user {} at {address}", self.door, name.escape_debug())
            }
            (Principal::User(name), None) => write!(f, "{} user {}", self.door, name.escape_debug()),
            (Principal::Node(node), _) => write!(f, "node {node}"),
            (Principal::Internal, _) => f.write_str("this node"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> SocketAddr {
        "[::ffff:127.0.0.1]:5000".parse().unwrap()
    }

    #[test]
    fn the_log_names_callers() {
        let client = Caller::client(Door::Nats, address());
        assert_eq!(Caller::client(Door::Kafka, address()).to_string(), "kafka client 127.0.0.1:5000");
        assert_eq!(client.clone().as_user("alice".into()).to_string(), "nats user alice at 127.0.0.1:5000");
        assert_eq!(client.as_user("a\nb".into()).to_string(), "nats user a\\nb at 127.0.0.1:5000");
        assert_eq!(Caller::on_link(Some(NodeId(2))).to_string(), "node 2");
        assert_eq!(Caller::on_link(None).to_string(), "peers client");
        assert_eq!(Caller::internal().to_string(), "this node");
    }

    #[test]
    fn only_a_link_makes_a_node() {
        let client = Caller::client(Door::Peers, address());
        assert_eq!(client.principal(), &Principal::Anonymous);
        for nobody in
            [&client, &client.clone().as_user("2".into()), Caller::internal(), &Caller::on_link(None)]
        {
            assert_eq!(nobody.node(), None, "{nobody}");
        }
        assert_eq!(Caller::on_link(Some(NodeId(2))).node(), Some(NodeId(2)));
    }

    #[tokio::test]
    async fn a_caller_waits_until_its_deadline_and_without_one_for_ever() {
        tailrace_runtime::install();
        let patient = Caller::client(Door::Kafka, address());
        assert!(!patient.is_late());
        let minute = Duration::from_secs(60);
        assert!(patient.until(minute) > Instant::now());
        assert_eq!(patient.wait(async { 7 }).await, Ok(7));
        let late = patient.within(Duration::ZERO);
        assert!(late.is_late());
        assert!(late.until(minute) <= Instant::now());
        late.gives_up().await;
        assert_eq!(late.wait(std::future::pending::<()>()).await, Err(Elapsed));
        assert!(!late.patient().is_late());
        assert!(!patient.within(minute).is_late());
    }
}
