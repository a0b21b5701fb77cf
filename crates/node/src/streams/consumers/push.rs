//! The boxes of push consumers: what is to be sent waits there for a task.

use std::sync::Arc;

use parking_lot::Mutex;
use tailrace_jetstream::consumer::{Advisory, Names, PushRules};

use super::super::deliverer::Deliverer;
use super::events::Events;
use super::items::{Item, Items, Unread};

/// Pauses between two looks whether somebody listens at last, in ns: the first, and the longest.
const LOOK_FIRST_NS: i64 = 10_000_000;
const LOOK_LAST_NS: i64 = 1_000_000_000;

/// Pause between two looks whether somebody still listens, in ns. A task that sends notices it at once.
const LISTENING_NS: i64 = 2_000_000_000;

/// Where a push consumer sends.
pub(super) struct Push {
    pub(super) names: Names,
    pub(super) subject: Arc<str>,
    group: Option<Arc<str>>,
    inside: Mutex<Inside>,
    unread: Unread,
}

struct Inside {
    items: Items,
    /// Sequences of messages that reached nobody.
    returned: Vec<u64>,
    is_sending: bool,
    is_over: bool,
}

/// What the task sends next.
pub(super) struct Next {
    pub(super) items: Vec<Item>,
    /// The consumer had stopped because of its box.
    pub(super) was_crowded: bool,
}

impl Push {
    pub(super) fn new(names: &Names, rules: &PushRules, unread: &Unread) -> Self {
        let (items, returned) = (Items::new(unread), Vec::new());
        Self {
            names: names.clone(),
            subject: Arc::clone(&rules.deliver),
            group: rules.group.clone(),
            inside: Mutex::new(Inside { items, returned, is_sending: false, is_over: false }),
            unread: unread.clone(),
        }
    }

    /// Reports whether it is the way to this subject and group.
    pub(super) fn is_of(&self, rules: &PushRules) -> bool {
        (&self.subject, &self.group) == (&rules.deliver, &rules.group)
    }

    /// Reports whether this is its subject.
    pub(super) fn is_to(&self, subject: &str) -> bool {
        *self.subject == *subject
    }

    /// Puts something into the box. Returns whether a task has to be started for it.
    fn put(&self, item: Item) -> bool {
        let mut inside = self.inside.lock();
        if inside.is_over {
            return false;
        }
        inside.items.put(item);
        !std::mem::replace(&mut inside.is_sending, true)
    }

    /// What is sent next. Without anything the task ends.
    pub(super) fn next(&self) -> Option<Next> {
        let was_crowded = self.unread.is_crowded();
        let mut inside = self.inside.lock();
        inside.is_sending = !inside.items.is_empty();
        inside.is_sending.then(|| Next { items: inside.items.take(), was_crowded })
    }

    /// Keeps the sequences of messages that reached nobody.
    pub(super) fn give_back(&self, sequences: impl IntoIterator<Item = u64>) {
        self.inside.lock().returned.extend(sequences);
    }

    /// The sequences of messages that reached nobody, once.
    pub(super) fn returned(&self) -> Vec<u64> {
        std::mem::take(&mut self.inside.lock().returned)
    }

    /// Ends it. Returns the sequences of messages that it has not sent.
    pub(super) fn end(&self) -> Vec<u64> {
        let mut inside = self.inside.lock();
        inside.is_over = true;
        let mut left = std::mem::take(&mut inside.returned);
        left.extend(inside.items.empty());
        left
    }
}

/// When to look again whether somebody listens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub(super) at_ns: i64,
    pause_ns: i64,
}

impl Look {
    /// Notes what a look has found.
    pub(super) fn found(&mut self, is_listened: bool, now_ns: i64) {
        self.pause_ns = match is_listened {
            true => 0,
            false => (self.pause_ns * 2).clamp(LOOK_FIRST_NS, LOOK_LAST_NS),
        };
        self.at_ns = now_ns.saturating_add(if is_listened { LISTENING_NS } else { self.pause_ns });
    }
}

/// The ways of push consumers to their clients.
pub(super) struct Pushes {
    pub(super) deliverer: Option<Arc<dyn Deliverer>>,
    /// Those for which a task has to be started.
    filled: Mutex<Vec<Arc<Push>>>,
    /// Advisories that wait to be sent.
    pub(super) events: Events,
}

impl Pushes {
    pub(super) fn new(deliverer: Option<Arc<dyn Deliverer>>) -> Self {
        Self { deliverer, filled: Mutex::default(), events: Events::default() }
    }

    /// Reports whether there is a front that sends.
    pub(super) fn are_possible(&self) -> bool {
        self.deliverer.is_some()
    }

    pub(super) fn put(&self, push: &Arc<Push>, item: Item) {
        if push.put(item) {
            self.filled.lock().push(Arc::clone(push));
        }
    }

    /// Those for which a task has to be started, once.
    pub(super) fn filled(&self) -> Vec<Arc<Push>> {
        std::mem::take(&mut self.filled.lock())
    }

    pub(super) fn is_filled(&self) -> bool {
        !self.filled.lock().is_empty() || !self.events.is_empty()
    }

    /// Has an advisory sent, if somebody listens to it.
    pub(super) fn advise(&self, names: &Names, advisory: &Advisory) {
        let subject = advisory.subject(names);
        if self.has_interest(&subject, None) {
            self.events.add(subject, names, advisory);
        }
    }

    /// Reports whether somebody listens there.
    pub(super) fn is_listened(&self, push: &Push) -> bool {
        self.has_interest(&push.subject, push.group.as_deref())
    }

    pub(super) fn has_interest(&self, subject: &str, group: Option<&str>) -> bool {
        self.deliverer.as_ref().is_some_and(|deliverer| deliverer.has_interest(subject, group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_listen_is_looked_for_ever_more_rarely_and_at_once_after_they_have_left() {
        let mut look = Look::default();
        let mut pauses = Vec::new();
        for found in [false, false, false, true, false] {
            look.found(found, 5);
            pauses.push((look.at_ns - 5) / 1_000_000);
        }
        assert_eq!(pauses, [10, 20, 40, 2_000, 10]);
        (0..20).for_each(|_| look.found(false, 0));
        assert_eq!(look.at_ns, LOOK_LAST_NS);
    }
}
