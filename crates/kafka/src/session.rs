//! What is known of a client.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tailrace_node::{Caller, Door};

/// What is known of the client at the other end of a connection.
///
/// Who it is belongs here and not to the single request: a connection is authenticated once, and every request's [`Context`]
/// leads here. There is deliberately no function yet that grants or denies: without a model of permissions, which is to be
/// the same for both protocols, its parameters would be guesses and each call a line that does nothing.
#[derive(Debug)]
pub(crate) struct ClientSession {
    /// Number of the connection, unique in the process.
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    /// Who it is, as the node knows it.
    pub(crate) caller: Caller,
    /// The address that the client reached, told to it where no advertised listener is set.
    pub(crate) local: SocketAddr,
    /// Name and version that the client gave in ApiVersions.
    pub(crate) software: OnceLock<(String, String)>,
    /// Share sessions were opened or continued here.
    share_sessions: AtomicBool,
    /// Memory that the request decoded last takes beyond its frame.
    decoded_bytes: AtomicUsize,
}

impl ClientSession {
    /// Of a client.
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

    /// A share session was opened or continued here.
    pub(crate) fn uses_share_sessions(&self) {
        self.share_sessions.store(true, Ordering::Relaxed);
    }

    /// Memory that the request decoded just now takes beyond its frame.
    pub(crate) fn set_decoded_bytes(&self, bytes: usize) {
        self.decoded_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Memory that the request decided last took beyond its frame, once decoded. A connection decides one after the other.
    pub(crate) fn take_decoded_bytes(&self) -> usize {
        self.decoded_bytes.swap(0, Ordering::Relaxed)
    }

    pub(crate) fn has_share_sessions(&self) -> bool {
        self.share_sessions.load(Ordering::Relaxed)
    }
}
