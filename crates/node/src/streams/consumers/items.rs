//! What waits in boxes to be sent to clients: of pulls, and of push consumers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tailrace_jetstream::consumer::{Delivery, Status};

/// Messages in the boxes of a consumer, about 200 bytes each, above which it delivers no more.
const UNREAD_MAX: usize = 4_096;

/// Most messages and bytes that are taken out of a box at a time, but at least one message.
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

/// The number of messages in all boxes of a consumer.
#[derive(Clone, Debug, Default)]
pub(super) struct Unread(Arc<AtomicUsize>);

impl Unread {
    /// Reports whether there are too many for more.
    pub(super) fn is_crowded(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= UNREAD_MAX
    }
}

/// A box. What is in it counts as unread.
pub(super) struct Items {
    all: VecDeque<Item>,
    unread: Unread,
}

impl Items {
    pub(super) fn new(unread: &Unread) -> Self {
        Self { all: VecDeque::new(), unread: unread.clone() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Puts something behind what is there.
    pub(super) fn put(&mut self, item: Item) {
        if item.sequence().is_some() {
            self.unread.0.fetch_add(1, Ordering::Relaxed);
        }
        self.all.push_back(item);
    }

    /// Takes the first of them, up to a bound.
    pub(super) fn take(&mut self) -> Vec<Item> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(item) = self.all.front() {
            let size = if let Item::Message(_, size) = item { *size } else { 0 };
            let is_full = taken.len() >= TAKEN_MAX || bytes + size > TAKEN_BYTES_MAX;
            if is_full && !taken.is_empty() {
                break;
            }
            bytes += size;
            taken.extend(self.all.pop_front());
        }
        self.read(taken.iter().filter(|item| item.sequence().is_some()).count());
        taken
    }

    /// Takes all, and returns the sequences of the messages.
    pub(super) fn empty(&mut self) -> Vec<u64> {
        let sequences: Vec<u64> = self.all.drain(..).filter_map(|item| item.sequence()).collect();
        self.read(sequences.len());
        sequences
    }

    fn read(&self, messages: usize) {
        self.unread.0.fetch_sub(messages, Ordering::Relaxed);
    }
}
