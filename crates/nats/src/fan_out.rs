//! A message for very many subscriptions, delivered in several turns.
//!
//! Who publishes it carries on with it: the message is read again at each turn, and nothing behind it is carried out before it is
//! with all. So does the link that brings it from another node. Subscriptions that end meanwhile may still get it, those that are made
//! meanwhile do not.

use std::sync::Arc;
use tailrace_env::time::Instant;

use bytes::Bytes;
use tailrace_nats_wire::Message;

use crate::burst::Burst;
use crate::capture::Binding;
use crate::client::Client;
use crate::queues::QueuePicker;
use crate::router::{NODES, Outgoing, QUEUES, Router};
use crate::subscription::ClientSubscription;
use crate::target::{Here, Target};

/// Subscriptions after which the clock is looked at.
const AT_ONCE: usize = 128;

/// The message is on its way to so many, and has got so far.
pub(super) struct FanOut {
    targets: Vec<Arc<Target>>,
    /// Targets that were looked at.
    plain: usize,
    /// Targets that were put into their queue groups, if there are any.
    grouped: usize,
    /// Groups that were served.
    served: usize,
    queues: QueuePicker,
    others: u8,
    shared: Option<Bytes>,
    /// To plain subscribers, and to nodes.
    deliveries: usize,
    /// Groups of which a member has it.
    groups: usize,
}

/// Who publishes what, and until when a turn lasts.
pub(super) struct Turn<'a, 'm> {
    pub(super) burst: &'a mut Burst,
    pub(super) origin: Option<&'a Client>,
    pub(super) message: &'a Message<'m>,
    /// Present if another node has sent it: it goes no further than this.
    pub(super) here: Option<Here<'a>>,
    pub(super) until: Instant,
}

impl FanOut {
    pub(super) fn new(targets: Vec<Arc<Target>>) -> Self {
        let queues = QueuePicker::new(tailrace_env::random::u64());
        Self {
            targets,
            plain: 0,
            grouped: 0,
            served: 0,
            queues,
            others: 0,
            shared: None,
            deliveries: 0,
            groups: 0,
        }
    }

    /// Goes on for one turn. Topics that capture the message are handed to `captured`. The number of deliveries, when all are made.
    pub(super) fn go_on(
        &mut self,
        router: &Router,
        turn: Turn<'_, '_>,
        captured: impl FnMut(&Arc<Binding>),
    ) -> Option<usize> {
        let Turn { burst, origin, message, here, until } = turn;
        let mut outgoing = Outgoing { burst, origin, message, shared: self.shared.take() };
        let done = self.plain(&mut outgoing, here, until, captured)
            && (self.others & QUEUES == 0 || self.group(here, until) && self.serve(&mut outgoing, until));
        self.shared = outgoing.shared.take();
        if !done {
            return None;
        }
        if self.others & NODES != 0 && here.is_none() {
            self.deliveries += router.send_to_nodes(&self.targets, &self.queues, message);
        }
        Some(self.deliveries + self.groups)
    }

    /// Queue groups of which a member has got it.
    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    fn plain(
        &mut self,
        outgoing: &mut Outgoing<'_, '_>,
        here: Option<Here<'_>>,
        until: Instant,
        mut captured: impl FnMut(&Arc<Binding>),
    ) -> bool {
        let to_plain = here.is_none_or(|here| here.plain);
        while self.plain < self.targets.len() {
            let end = self.targets.len().min(self.plain + AT_ONCE);
            for target in &self.targets[self.plain..end] {
                match &**target {
                    Target::Topic(binding) => captured(binding),
                    Target::Client(subscription) if subscription.queue.is_some() => self.others |= QUEUES,
                    Target::Client(subscription) => {
                        self.deliveries += usize::from(to_plain && outgoing.deliver(subscription));
                    }
                    Target::Node(_) => self.others |= NODES,
                }
            }
            self.plain = end;
            if Instant::now() >= until {
                return self.plain == self.targets.len() && self.others == 0;
            }
        }
        true
    }

    fn group(&mut self, here: Option<Here<'_>>, until: Instant) -> bool {
        if self.grouped == 0 {
            self.queues.begin(self.targets.len());
        }
        while self.grouped < self.targets.len() {
            let end = self.targets.len().min(self.grouped + AT_ONCE);
            let wanted = |queue: &[u8]| here.is_none_or(|here| here.wants(queue));
            self.queues.gather(&self.targets, self.grouped..end, wanted);
            self.grouped = end;
            if Instant::now() >= until {
                return false;
            }
        }
        true
    }

    fn serve(&mut self, outgoing: &mut Outgoing<'_, '_>, until: Instant) -> bool {
        let mut deliver = |subscription: &ClientSubscription| outgoing.deliver(subscription);
        while self.served < self.queues.groups() {
            self.groups += usize::from(self.queues.serve(&self.targets, self.served, &mut deliver));
            self.served += 1;
            if self.served.is_multiple_of(AT_ONCE) && Instant::now() >= until {
                return false;
            }
        }
        true
    }
}
