//! The session of one client.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tailrace_node::{Caller, Door};

/// The client at the other end of a connection.
///
/// Its identity belongs here and not in the single request. A connection is authenticated once, and every
/// request's [`Context`] leads here. There is deliberately no function yet that grants or denies. The model
/// of permissions, which will be the same for both protocols, does not exist yet. Without it the parameters
/// would be guesses, and each call a line that does nothing.
#[derive(Debug)]
pub(crate) struct ClientSession {
    /// Number of the connection, unique in the process.
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    /// The client's identity within the node.
    pub(crate) caller: Caller,
    /// The local address of the connection. The client is told this address if no advertised listener is set.
    pub(crate) local: SocketAddr,
    /// The name and version that the client sent in ApiVersions.
    pub(crate) software: OnceLock<(String, String)>,
    /// Whether share sessions were opened or continued on this connection.
    share_sessions: AtomicBool,
    /// Memory that the last decoded request takes beyond its frame.
    decoded_bytes: AtomicUsize,
}

impl ClientSession {
    /// Creates the session of a client.
    pub(crate) fn new(peer: SocketAddr, local: SocketAddr) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            peer,
            caller: Caller::client(Door::Kafka, peer),
            local,
            software: OnceLock::new(),
            share_sessions: AtomicBool::new(false),
            decoded_bytes: AtomicUsize::new(0),
        }
    }

    /// Records that a share session was opened or continued on this connection.
    pub(crate) fn uses_share_sessions(&self) {
        self.share_sessions.store(true, Ordering::Relaxed);
    }

    /// Sets the memory that the request decoded just now takes beyond its frame.
    pub(crate) fn set_decoded_bytes(&self, bytes: usize) {
        self.decoded_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Takes the memory that the last decoded request takes beyond its frame. A connection decides one
    /// request at a time.
    pub(crate) fn take_decoded_bytes(&self) -> usize {
        self.decoded_bytes.swap(0, Ordering::Relaxed)
    }

    pub(crate) fn has_share_sessions(&self) -> bool {
        self.share_sessions.load(Ordering::Relaxed)
    }
}
