//! A message for very many subscriptions, delivered in several turns.
//!
//! The publishing connection continues the delivery. It reads the message again at each turn, and executes no
//! later operation before all subscriptions have it. A link that brings the message from another node does
//! the same. Subscriptions that are created or end meanwhile do not get it. In a queue group, another member
//! gets it then.

use std::sync::Arc;
use tailrace_env::time::Instant;

use bytes::Bytes;
use tailrace_nats_wire::Message;

use crate::burst::{Burst, Crossing};
use crate::capture::Binding;
use crate::client::Client;
use crate::letter::Letter;
use crate::queues::QueuePicker;
use crate::router::{NODES, Outgoing, QUEUES, Router};
use crate::subscription::ClientSubscription;
use crate::target::{Here, Target};

/// Subscriptions after which the clock is checked.
const AT_ONCE: usize = 128;

/// The targets of a message, and the progress of its delivery.
pub(super) struct FanOut {
    targets: Vec<Arc<Target>>,
    /// Where the message goes, if that is not its own subject.
    at: Option<Arc<[u8]>>,
    /// Number of targets that were visited.
    plain: usize,
    /// Number of targets that were put into their queue groups, if there are any.
    grouped: usize,
    /// Number of groups that were served.
    served: usize,
    queues: QueuePicker,
    others: u8,
    shared: Option<Bytes>,
    /// Deliveries to plain subscribers and to nodes.
    deliveries: usize,
    /// Number of groups of which a member got it.
    groups: usize,
    /// The ways to other accounts.
    crossings: Vec<Arc<dyn Crossing>>,
}

/// One turn: the message, its publisher, and the end of the turn.
pub(super) struct Turn<'a, 'm> {
    pub(super) burst: &'a mut Burst,
    pub(super) origin: Option<&'a Client>,
    pub(super) message: &'a Message<'m>,
    /// Set if another node sent the message. It is delivered only as far as this says.
    pub(super) here: Option<Here<'a>>,
    pub(super) until: Instant,
}

impl FanOut {
    pub(super) fn new(targets: Vec<Arc<Target>>) -> Self {
        let queues = QueuePicker::new(tailrace_env::random::u64());
        Self {
            targets,
            at: None,
            plain: 0,
            grouped: 0,
            served: 0,
            queues,
            others: 0,
            shared: None,
            deliveries: 0,
            groups: 0,
            crossings: Vec::new(),
        }
    }

    /// The same for a message that goes to another subject than its own.
    pub(super) fn to(targets: Vec<Arc<Target>>, at: Option<&[u8]>) -> Self {
        Self { at: at.map(Into::into), ..Self::new(targets) }
    }

    /// Continues for one turn. Passes topics that capture the message to `captured`. Returns the number of
    /// deliveries when all are made.
    pub(super) fn go_on(
        &mut self,
        router: &Router,
        turn: Turn<'_, '_>,
        captured: impl FnMut(&Arc<Binding>),
    ) -> Option<usize> {
        let Turn { burst, origin, message, here, until } = turn;
        let at = self.at.clone();
        let letter = Letter { message, at: at.as_deref() };
        let mut outgoing = Outgoing { burst, origin, letter, shared: self.shared.take() };
        let done = self.plain(&mut outgoing, here, until, captured)
            && (self.others & QUEUES == 0 || self.group(here, until) && self.serve(&mut outgoing, until));
        self.shared = outgoing.shared.take();
        if !done {
            return None;
        }
        burst.crossings.append(&mut self.crossings);
        if self.others & NODES != 0 && here.is_none() {
            self.deliveries += router.send_to_nodes(&self.targets, &self.queues, letter);
        }
        Some(self.deliveries + self.groups)
    }

    /// Number of queue groups of which a member got the message.
    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    fn plain(
        &mut self,
        outgoing: &mut Outgoing<'_>,
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
                    Target::Account(crossing) => {
                        let crosses = here.is_none() || to_plain && crossing.is_for_other_nodes();
                        if crosses && self.at.is_none() {
                            self.crossings.push(Arc::clone(crossing));
                        }
                    }
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

    fn serve(&mut self, outgoing: &mut Outgoing<'_>, until: Instant) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Asker;
    use crate::client::{Client, TransportKind};
    use crate::close::CloseReason;
    use crate::front::NatsFront;
    use crate::outbuf::OutBuffer;
    use crate::session::Session;
    use crate::testing::front;

    /// A client that sends, and reads nothing.
    struct Talker {
        client: Arc<Client>,
        session: Session,
    }

    impl Talker {
        fn new(front: &NatsFront, says: &str) -> Self {
            let out = OutBuffer::new(front.limits().out, None);
            let client = Arc::new(Client::new(1, ([127, 0, 0, 1], 1).into(), TransportKind::Plain, out));
            let (node, connection) = (std::sync::Weak::new(), client.connection());
            let asker = Asker { node, client: client.caller(), connection, certificate: None };
            let mut talker = Self { session: Session::new(front, &client, asker), client };
            talker.says(front, says);
            talker
        }

        fn says(&mut self, front: &NatsFront, words: &str) {
            let mut left = words.as_bytes();
            while !left.is_empty() {
                let (used, _) = self.session.process(front, left, Instant::now());
                left = &left[used..];
            }
        }

        fn got(&self) -> u64 {
            self.client.sent().0
        }
    }

    const MESSAGE: Message<'_> = Message { subject: b"r", reply: None, headers: None, payload: b"x" };

    fn targets(front: &NatsFront) -> Vec<Arc<Target>> {
        let mut targets = Vec::new();
        front.router().space().matches(MESSAGE.subject, &mut targets).unwrap();
        targets
    }

    /// Runs the shortest possible turn.
    fn turn(front: &NatsFront, fan_out: &mut FanOut) -> Option<usize> {
        let mut burst = Burst::default();
        let until = Instant::now();
        let turn = Turn { burst: &mut burst, origin: None, message: &MESSAGE, here: None, until };
        let done = fan_out.go_on(front.router(), turn, |_| {});
        burst.finish(front.metrics());
        done
    }

    fn rest(front: &NatsFront, fan_out: &mut FanOut) -> usize {
        loop {
            if let Some(deliveries) = turn(front, fan_out) {
                return deliveries;
            }
        }
    }

    fn subscribe(numbers: std::ops::Range<usize>) -> String {
        numbers.map(|number| format!("SUB r {number}\r\n")).collect()
    }

    #[test]
    fn who_unsubscribes_between_two_turns_gets_nothing_more() {
        let all: String = (0..1000).map(|number| format!("UNSUB {number}\r\n")).collect();
        let had_one: String = (0..1000).map(|number| format!("UNSUB {number} 1\r\n")).collect();
        for (words, is_after_a_message) in [(&*all, false), ("CONNECT {}\r\n", false), (&*had_one, true)] {
            let front = front();
            // A second CONNECT may change the user.
            let mut talker = Talker::new(&front, &format!("CONNECT {{}}\r\n{}", subscribe(0..1000)));
            let mut before = 0;
            if is_after_a_message {
                before = rest(&front, &mut FanOut::new(targets(&front))) as u64;
                assert_eq!(before, 1000);
            }
            let mut fan_out = FanOut::new(targets(&front));
            assert_eq!(turn(&front, &mut fan_out), None);
            let got = talker.got();
            assert_eq!(got, before + AT_ONCE as u64);
            talker.says(&front, words);
            assert_eq!(rest(&front, &mut fan_out), AT_ONCE);
            assert_eq!(talker.got(), got, "after {}", &words[..10]);
            talker.says(&front, &subscribe(0..1000));
            assert_eq!(rest(&front, &mut FanOut::new(targets(&front))), 1000);
        }
    }

    #[test]
    fn who_has_left_between_two_turns_gets_nothing_more() {
        let front = front();
        let talker = Talker::new(&front, &subscribe(0..1000));
        let mut fan_out = FanOut::new(targets(&front));
        assert_eq!(turn(&front, &mut fan_out), None);
        talker.client.out.close(CloseReason::Client);
        assert_eq!(rest(&front, &mut fan_out), AT_ONCE);
        assert_eq!(talker.got(), AT_ONCE as u64);
    }

    #[test]
    fn another_member_of_the_group_gets_what_was_for_one_that_unsubscribes() {
        // Repeated, because the picked member is random.
        for _ in 0..32 {
            let front = front();
            let mut leaver = Talker::new(&front, "SUB r g 1\r\n");
            let stayer = Talker::new(&front, "SUB r g 1\r\n");
            let mut fan_out = FanOut::new(targets(&front));
            assert_eq!(turn(&front, &mut fan_out), None, "it has found that there are groups");
            assert_eq!(turn(&front, &mut fan_out), None, "a member is picked");
            leaver.says(&front, "UNSUB 1\r\n");
            assert_eq!(rest(&front, &mut fan_out), 1);
            assert_eq!((leaver.got(), stayer.got()), (0, 1));
        }
    }

    #[test]
    fn a_member_that_has_unsubscribed_is_not_picked() {
        let front = front();
        let mut leaver = Talker::new(&front, "SUB r g 1\r\n");
        let found = targets(&front);
        leaver.says(&front, "UNSUB 1\r\n");
        assert_eq!(
            rest(&front, &mut FanOut::new(found)),
            0,
            "the publisher learns that there are no responders"
        );
        assert_eq!(leaver.got(), 0);
    }
}
