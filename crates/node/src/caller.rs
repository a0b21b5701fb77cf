//! Who asks something of the node, by which door, and until when it waits.
//!
//! A front makes a [`Caller`] for each connection and hands it down with what it asks for: the node's log names who was
//! refused and who changed something, and nothing is begun for who waits no longer. What a caller may do is not decided
//! by it yet, but for one thing: what only nodes may ask (`ask::only_nodes`).
//!
//! # What takes one
//!
//! Whatever a front has the node do: append, read, change metadata, ask a coordinator or another node, use
//! share-partitions. It stands behind the node, or comes first where there is none. Timers, and what the node does once
//! a change is committed, ask for nobody else: [`Caller::internal`]. What is begun for a caller and must be finished
//! asks as [`Caller::patient`].
//!
//! Looking at what is in memory takes none: the image, the table of topics, who leads, the end of a partition, its
//! settings. Neither does waiting for a commit, nor the table of share sessions, which is the front's own.
//!
//! Coordinators refuse a request whose caller is late when its turn comes; the controller is looked for no longer than
//! the caller waits. A partition appends what it is given: a front asks before that whether it is late.
//!
//! A question to another node does not say for whom it is put: there, the caller is this node.
//!
//! # Who is a node
//!
//! Only the receiver of the links makes a caller that is a node ([`Caller::on_link`], which is not public), of what the
//! handshake of the link has proved. A front can make clients and users, and nothing that takes a caller takes a
//! principal beside it. So no client can pass for a node, whatever a front gets wrong.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use tailrace_env::time::{Duration, Elapsed, Instant, sleep_until, timeout_at};
use tailrace_identity::Principal;
use tailrace_types::NodeId;

/// Who asks. It costs no memory of its own to copy: the name of a user is shared.
#[derive(Clone, Debug)]
pub struct Caller {
    principal: Principal,
    address: Option<SocketAddr>,
    door: Door,
    deadline: Option<Instant>,
}

/// How somebody came in.
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
    /// None: the program that the node runs in.
    Inside,
}

static INTERNAL: Caller =
    Caller { principal: Principal::Internal, address: None, door: Door::Inside, deadline: None };

impl Caller {
    /// A client of whom only the address is known.
    pub fn client(door: Door, address: SocketAddr) -> Self {
        Self { principal: Principal::Anonymous, address: Some(address), door, deadline: None }
    }

    /// The same once it has proved that it is this user.
    #[must_use]
    pub fn as_user(self, name: Arc<str>) -> Self {
        Self { principal: Principal::User(name), ..self }
    }

    /// The node itself, or the program that it runs in: asks for nobody else.
    pub fn internal() -> &'static Self {
        &INTERNAL
    }

    /// Who asks over a link; `None` if it is no member of the cluster. For the receiver of the links alone, see above.
    pub(crate) fn on_link(from: Option<NodeId>) -> Self {
        let principal = from.map_or(Principal::Anonymous, Principal::Node);
        Self { principal, address: None, door: Door::Peers, deadline: None }
    }

    /// The same, who waits for so long from now on.
    #[must_use]
    pub fn within(&self, time: Duration) -> Self {
        Self { deadline: Some(Instant::now() + time), ..self.clone() }
    }

    /// The same, who waits without end: for what is begun, and is finished all the same.
    pub(crate) fn patient(&self) -> Self {
        Self { deadline: None, ..self.clone() }
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The node that asks, if one does.
    pub(crate) fn node(&self) -> Option<NodeId> {
        match self.principal {
            Principal::Node(node) => Some(node),
            Principal::Anonymous | Principal::User(_) | Principal::Internal => None,
        }
    }

    /// Until when it waits. What is begun by then is finished all the same.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// When something ends that may take so long, and no longer than the caller waits.
    pub(crate) fn until(&self, limit: Duration) -> Instant {
        let until = Instant::now() + limit;
        self.deadline.map_or(until, |deadline| deadline.min(until))
    }

    /// True if it waits no longer.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Ends when the caller waits no longer.
    pub async fn gives_up(&self) {
        match self.deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for `future` as long as the caller does.
    ///
    /// # Errors
    /// It gives up.
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
    /// For the log: `kafka client 127.0.0.1:5000`, `nats user alice at 127.0.0.1:5000`, `node 2`, `this node`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address =
            self.address.map(|address| SocketAddr::new(address.ip().to_canonical(), address.port()));
        match (&self.principal, address) {
            (Principal::Anonymous, Some(address)) => write!(f, "{} client {address}", self.door),
            (Principal::Anonymous, None) => write!(f, "{} client", self.door),
            // A name may have any characters; a line of the log is one line.
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
