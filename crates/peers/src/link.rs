//! The link to one other node, as senders see it. `dialler` keeps it up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tailrace_env::sync::Notify;
use tailrace_env::task::JoinHandle;

use super::session::Session;
use super::types::PeerNode;

/// The link to one node, up or down.
pub(crate) struct Link {
    pub(super) node: PeerNode,
    /// `Some` while it is up.
    session: ArcSwapOption<Session>,
    /// Ends the pause before the next attempt.
    nudge: Notify,
    finishing: AtomicBool,
    /// At the last attempt the other node reported that another one with this node's id is alive.
    number_is_taken: AtomicBool,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Link {
    /// Makes a link that is not being dialled yet.
    pub(super) fn new(node: PeerNode) -> Self {
        Self {
            node,
            session: ArcSwapOption::empty(),
            nudge: Notify::new(),
            finishing: AtomicBool::new(false),
            number_is_taken: AtomicBool::new(false),
            task: Mutex::default(),
        }
    }

    /// Sets the task that dials the node. The link ends with it.
    pub(super) fn set_task(&self, task: JoinHandle<()>) {
        *self.task.lock() = Some(task);
    }

    pub(super) fn session(&self) -> Option<Arc<Session>> {
        self.session.load_full()
    }

    /// Like [`Link::session`], without counting a reference.
    pub(super) fn with_session<T>(&self, f: impl FnOnce(&Session) -> T) -> Option<T> {
        self.session.load().as_deref().map(f)
    }

    /// Marks the link as up with this session, or as down without one.
    pub(super) fn set_session(&self, session: Option<Arc<Session>>) {
        self.session.store(session);
    }

    /// Reports a sign of life from the node, which is dialled at once if the link is down.
    pub(super) fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// Waits for a sign of life.
    pub(super) async fn nudged(&self) {
        self.nudge.notified().await;
    }

    /// Reports whether the other node refuses this one, because another node with its id is alive.
    pub(super) fn number_is_taken(&self) -> bool {
        self.number_is_taken.load(Ordering::Acquire)
    }

    pub(super) fn set_number_is_taken(&self, taken: bool) {
        self.number_is_taken.store(taken, Ordering::Release);
    }

    /// Lets the link end once the backlog has reached the other node. It does not come back.
    pub(super) fn finish(&self) -> Option<Arc<Session>> {
        self.finishing.store(true, Ordering::Release);
        self.session().inspect(|session| session.outgoing.finish())
    }

    /// Reports whether it must not be dialled again.
    pub(super) fn is_finishing(&self) -> bool {
        self.finishing.load(Ordering::Acquire)
    }

    /// Ends the link.
    pub(super) fn end(&self) -> Option<JoinHandle<()>> {
        let task = self.task.lock().take();
        task.inspect(JoinHandle::abort)
    }
}
