//! Pull requests of clients on any node, at the leader of the stream.
//!
//! A pull has a box of what is to be sent to its client. The client's node asks for it again and again, and
//! each question waits until there is something, for [`HOLD`] at most. A pull that its node does not ask for
//! during [`LEASE`] is given up, and what is in its box counts as not delivered.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tailrace_env::time::{Duration, Instant, timeout_at};

use parking_lot::Mutex;
use tailrace_env::sync::Notify;
use tailrace_jetstream::consumer::{Names, StatusKind};

use super::items::{Item, Items, Unread};

/// Time for which a question waits. Below the patience of those who ask the leader of a stream.
const HOLD: Duration = Duration::from_secs(2);

/// Time without a question after which a pull is given up.
const LEASE: Duration = Duration::from_secs(5);

/// A pull request.
pub(super) struct Pull {
    pub(super) id: u64,
    pub(super) inbox: Arc<str>,
    pub(super) names: Names,
    inside: Mutex<Inside>,
    wake: Notify,
    unread: Unread,
}

/// What was taken out of a box.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) items: Vec<Item>,
    /// Nothing more comes.
    pub(super) is_over: bool,
    /// The consumer had stopped because of its boxes.
    pub(super) was_crowded: bool,
}

struct Inside {
    items: Items,
    is_over: bool,
    /// Questions that wait now, and when the last one ended.
    asking: usize,
    asked_at: Instant,
}

impl Pull {
    /// Puts something into the box.
    pub(super) fn put(&self, item: Item) {
        let mut inside = self.inside.lock();
        match &item {
            Item::Message(delivery, _) => inside.is_over |= delivery.is_last,
            Item::Status(status) => {
                inside.is_over |= !matches!(status.kind, StatusKind::IdleHeartbeat { .. });
            }
        }
        inside.items.put(item);
    }

    /// Nothing more comes.
    pub(super) fn end(&self) {
        self.inside.lock().is_over = true;
    }

    /// Wakes the question that waits.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Takes what there is, and waits for it.
    pub(super) async fn take(&self, deadline: Instant) -> Taken {
        let _asking = Asking::new(self);
        let until = deadline.min(Instant::now() + HOLD);
        loop {
            let taken = self.take_now();
            if !taken.items.is_empty() || taken.is_over {
                return taken;
            }
            if timeout_at(until, self.wake.notified()).await.is_err() {
                return self.take_now();
            }
        }
    }

    fn take_now(&self) -> Taken {
        let was_crowded = self.unread.is_crowded();
        let mut inside = self.inside.lock();
        let taken = inside.items.take();
        Taken { items: taken, is_over: inside.is_over && inside.items.is_empty(), was_crowded }
    }

    /// Empties the box for good, and returns the sequences of its messages. A question that waits ends.
    pub(super) fn empty(&self) -> Vec<u64> {
        let mut inside = self.inside.lock();
        inside.is_over = true;
        self.wake();
        inside.items.empty()
    }

    fn is_wanted(&self) -> bool {
        let inside = self.inside.lock();
        !inside.is_over && !inside.is_lapsed()
    }
}

impl Inside {
    fn is_lapsed(&self) -> bool {
        self.asking == 0 && self.asked_at.elapsed() >= LEASE
    }
}

/// A question that waits.
struct Asking<'a>(&'a Pull);

impl<'a> Asking<'a> {
    fn new(pull: &'a Pull) -> Self {
        pull.inside.lock().asking += 1;
        Self(pull)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut inside = self.0.inside.lock();
        inside.asking -= 1;
        inside.asked_at = Instant::now();
    }
}

/// The inbox of a pull in the state machine of its consumer.
pub(super) fn inbox(id: u64) -> String {
    id.to_string()
}

/// The pulls of a stream.
pub(super) struct Pulls {
    all: Mutex<HashMap<u64, Arc<Pull>>>,
    /// Those of the node.
    total: Arc<AtomicUsize>,
}

impl Pulls {
    pub(super) fn new(total: &Arc<AtomicUsize>) -> Self {
        Self { all: Mutex::default(), total: Arc::clone(total) }
    }

    /// Adds a pull. `None` if the node has as many as it may have.
    pub(super) fn add(&self, names: &Names, unread: &Unread, max: usize) -> Option<Arc<Pull>> {
        if self.total.fetch_add(1, Ordering::Relaxed) >= max {
            self.total.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let items = Items::new(unread);
        let inside = Inside { items, is_over: false, asking: 0, asked_at: Instant::now() };
        // Another leader must not take it for one of its own.
        let id = tailrace_env::random::u64();
        let pull = Arc::new(Pull {
            id,
            inbox: inbox(id).into(),
            names: names.clone(),
            inside: Mutex::new(inside),
            wake: Notify::new(),
            unread: unread.clone(),
        });
        self.all.lock().insert(id, Arc::clone(&pull));
        Some(pull)
    }

    pub(super) fn get(&self, id: u64) -> Option<Arc<Pull>> {
        self.all.lock().get(&id).cloned()
    }

    /// The pull that has this inbox in the state machine of its consumer.
    pub(super) fn of(&self, inbox: &str) -> Option<Arc<Pull>> {
        self.get(inbox.parse().ok()?)
    }

    pub(super) fn remove(&self, id: u64) -> Option<Arc<Pull>> {
        let removed = self.all.lock().remove(&id);
        if removed.is_some() {
            self.total.fetch_sub(1, Ordering::Relaxed);
        }
        removed
    }

    /// Whether the client of this inbox may still be there.
    pub(super) fn is_wanted(&self, inbox: &str) -> bool {
        self.of(inbox).is_some_and(|pull| pull.is_wanted())
    }

    /// Those that nobody asks for any more.
    pub(super) fn lapsed(&self) -> Vec<Arc<Pull>> {
        let all = self.all.lock();
        all.values().filter(|pull| pull.inside.lock().is_lapsed()).cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.lock().is_empty()
    }
}

impl Drop for Pulls {
    fn drop(&mut self) {
        self.total.fetch_sub(self.all.get_mut().len(), Ordering::Relaxed);
    }
}
