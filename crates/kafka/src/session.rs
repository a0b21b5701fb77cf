//! The session of one client.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use tailrace_node::access::LoggedIn;
use tailrace_node::{Caller, Door};

use crate::came_by::CameBy;
use crate::login::state::Login;
use crate::moved_groups::MovedGroups;
use crate::work::{self, Work};

/// The client at the other end of a connection.
///
/// Its identity belongs here and not in the single request. A connection is authenticated once, and every
/// request's [`Context`](crate::context::Context) leads here.
#[derive(Debug)]
pub(crate) struct ClientSession {
    /// Number of the connection, unique in the process.
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    /// The client's identity within the node before it has logged in, and afterwards. The first one has a
    /// user if the client's certificate names one.
    stranger: Caller,
    user: OnceLock<Caller>,
    login: Mutex<Login>,
    /// The local address of the connection. The client is told this address if no advertised listener is set.
    pub(crate) local: SocketAddr,
    /// The listener that the client came by.
    pub(crate) came_by: Arc<CameBy>,
    /// The name and version that the client sent in ApiVersions.
    pub(crate) software: OnceLock<(String, String)>,
    /// Groups whose offsets it has set without being a member.
    pub(crate) moved_groups: MovedGroups,
    /// Whether share sessions were opened or continued on this connection.
    share_sessions: AtomicBool,
    /// Memory that the last decoded request takes beyond its frame.
    decoded_bytes: AtomicUsize,
    /// How long the connection is not to be read, in milliseconds, until the connection takes it.
    throttle_ms: AtomicU32,
    /// The time that threads have spent on it, for its quota.
    pub(crate) work: Work,
}

impl ClientSession {
    /// Creates the session of a client.
    pub(crate) fn new(peer: SocketAddr, local: SocketAddr, came_by: Arc<CameBy>, login: Login) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let stranger = Caller::client(Door::Kafka, peer);
        let stranger = match login.user() {
            Some(user) => stranger.as_user(user.clone().into()),
            None => stranger,
        };
        Self {
            id,
            peer,
            stranger,
            user: OnceLock::new(),
            login: Mutex::new(login),
            local,
            came_by,
            software: OnceLock::new(),
            moved_groups: MovedGroups::default(),
            share_sessions: AtomicBool::new(false),
            decoded_bytes: AtomicUsize::new(0),
            throttle_ms: AtomicU32::new(0),
            work: Work::default(),
        }
    }

    /// Returns the client's identity within the node.
    pub(crate) fn caller(&self) -> &Caller {
        self.user.get().unwrap_or(&self.stranger)
    }

    /// Returns the login of the connection. Not to be held while something waits.
    pub(crate) fn login(&self) -> MutexGuard<'_, Login> {
        self.login.lock()
    }

    /// The client is this user from now on, and no longer the one that its certificate names. A further login
    /// is by the same user.
    pub(crate) fn log_in(&self, login: &LoggedIn) {
        self.user.get_or_init(|| self.stranger.clone().as_user(login.user().clone().into()));
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

    /// Asks the connection not to read for so many milliseconds.
    pub(crate) fn throttle(&self, throttle_ms: u32) {
        self.throttle_ms.fetch_max(throttle_ms, Ordering::Relaxed);
    }

    /// Takes the time for which the connection must not read, in milliseconds. Zero if it may.
    pub(crate) fn take_throttle_ms(&self) -> u32 {
        match self.throttle_ms.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.throttle_ms.swap(0, Ordering::Relaxed),
        }
    }

    pub(crate) fn has_share_sessions(&self) -> bool {
        self.share_sessions.load(Ordering::Relaxed)
    }
}

/// Counts the turns of work that another thread than the connection's carries out.
pub(crate) async fn counted<T>(session: Arc<ClientSession>, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| {
        work::begin_turn();
        let polled = future.as_mut().poll(cx);
        session.work.end_turn();
        polled
    })
    .await
}
