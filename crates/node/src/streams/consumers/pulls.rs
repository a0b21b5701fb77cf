//! Pull requests of clients on any node, at the leader of the stream.
//!
//! A pull has a box of what is to be sent to its client. The client's node asks for it again and again, and
//! each question waits until there is something, for [`HOLD`] at most. A pull that its node does not ask for
//! during [`LEASE`] is given up, and what is in its box counts as not delivered.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tailrace_env::time::{Duration, Instant, timeout_at};

use parking_lot::Mutex;
use tailrace_env::sync::Notify;
use tailrace_jetstream::consumer::{Delivery, Names, Status, StatusKind};

/// Time for which a question waits. Below the patience of those who ask the leader of a stream.
const HOLD: Duration = Duration::from_secs(2);

/// Time without a question after which a pull is given up.
const LEASE: Duration = Duration::from_secs(5);

/// Messages in the boxes of a consumer, about 200 bytes each, above which it delivers no more.
const UNREAD_MAX: usize = 4_096;

/// Most messages and bytes that one answer takes out of a box, but at least one message.
const TAKEN_MAX: usize = 1_024;
const TAKEN_BYTES_MAX: u64 = 4 << 20;

/// One thing for the client.
pub(super) enum Item {
    /// A message, and its size as JetStream counts it.
    Message(Delivery, u64),
    /// A status.
    Status(Status),
}

impl Item {
    /// The sequence of a message.
    pub(super) fn sequence(&self) -> Option<u64> {
        match self {
            Self::Message(delivery, _) => Some(delivery.stream_seq),
            Self::Status(_) => None,
        }
    }
}

/// A pull request.
pub(super) struct Pull {
    pub(super) id: u64,
    pub(super) inbox: Arc<str>,
    pub(super) names: Names,
    inside: Mutex<Inside>,
    wake: Notify,
    unread: Unread,
}

/// The number of messages in all boxes of a consumer.
#[derive(Clone, Debug, Default)]
pub(super) struct Unread(Arc<AtomicUsize>);

impl Unread {
    /// Reports whether there are too many for more.
    pub(super) fn is_crowded(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= UNREAD_MAX
    }

    fn add(&self, messages: usize) {
        self.0.fetch_add(messages, Ordering::Relaxed);
    }

    fn take_off(&self, messages: usize) {
        self.0.fetch_sub(messages, Ordering::Relaxed);
    }
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
    items: VecDeque<Item>,
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
            Item::Message(delivery, _) => {
                self.unread.add(1);
                inside.is_over |= delivery.is_last;
            }
            Item::Status(status) => {
                inside.is_over |= !matches!(status.kind, StatusKind::IdleHeartbeat { .. });
            }
        }
        inside.items.push_back(item);
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
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(item) = inside.items.front() {
            let size = if let Item::Message(_, size) = item { *size } else { 0 };
            let is_full = taken.len() >= TAKEN_MAX || bytes + size > TAKEN_BYTES_MAX;
            if is_full && !taken.is_empty() {
                break;
            }
            bytes += size;
            taken.extend(inside.items.pop_front());
        }
        let messages = taken.iter().filter(|item| matches!(item, Item::Message(..))).count();
        self.unread.take_off(messages);
        Taken { items: taken, is_over: inside.is_over && inside.items.is_empty(), was_crowded }
    }

    /// Empties the box for good, and returns the sequences of its messages. A question that waits ends.
    pub(super) fn empty(&self) -> Vec<u64> {
        let mut inside = self.inside.lock();
        inside.is_over = true;
        self.wake();
        let sequences: Vec<u64> = inside.items.drain(..).filter_map(|item| item.sequence()).collect();
        self.unread.take_off(sequences.len());
        sequences
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
        let inside = Inside { items: VecDeque::new(), is_over: false, asking: 0, asked_at: Instant::now() };
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
