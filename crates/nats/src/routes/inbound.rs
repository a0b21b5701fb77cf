//! The receiving side of another node's link: its interest, and messages for this node's subscribers.
//! Messages are delivered here and go no further, because every node has a link to every other one.
//!
//! Messages are delivered in order of arrival. One for very many subscribers takes several turns. Later
//! messages wait for it, but nothing else on the link does. Changes of interest apply at once, because they
//! concern messages published here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tailrace_env::task::Spawner;
use tailrace_env::time::Instant;

use bytes::Bytes;
use tailrace_subjects::{Dialect, Pattern};

use super::interest::Key;
use super::waiting::Waiting;
use super::wire::{self, Change, Inward, Row};
use super::{NodeInterest, RemoteNode};
use crate::account::Account;
use crate::burst::Burst;
use crate::fan_out::Turn;
use crate::front::NatsFront;
use crate::letter::Letter;
use crate::router::{Begun, Route};
use crate::spread::Spread;
use crate::target::{Here, Target};
use tailrace_env::aside::TURN;
use tailrace_peers::{NatsFrame, NatsReceiver};
use tailrace_types::{i64_of, take_off};

/// Number of routes up to which a node's interest is removed inline when it is dropped. A worker removes more
/// than that.
const REMOVED_INLINE_MAX: usize = 1024;

/// Bytes that each row of interest takes besides its texts, for the limit on bytes.
const ROW_OVERHEAD: usize = 16;

/// The receiving end of one link.
pub(crate) struct Inbound {
    front: Arc<NatsFront>,
    node: Arc<RemoteNode>,
    interest: Interest,
    burst: Burst,
    /// Whether there was a frame since the last call of `settle`.
    fresh: bool,
    began: bool,
    /// A message that is being delivered to very many subscribers, or in other accounts.
    wide: Option<Box<Wide>>,
    /// The messages after it.
    waiting: Waiting,
}

struct Wide {
    account: Arc<Account>,
    message: Inward,
    spread: Spread,
}

/// The subscribers of a node, as it has announced them on this link.
#[derive(Default)]
struct Interest {
    routes: HashMap<Key, Route>,
    /// One target for each queue group of each account, and one for its plain subscribers.
    targets: HashMap<Group, Arc<Target>>,
    /// Set when the node withdraws all of its interest at once. The targets share it.
    forgotten: Arc<AtomicBool>,
    bytes: usize,
    /// Whether it has been logged that there are too many.
    logged: bool,
}

/// An account, and a queue group in it.
type Group = (Option<Arc<str>>, Option<Arc<[u8]>>);

fn group_of(key: &Key) -> Group {
    (key.account.clone(), key.queue.clone())
}

impl Interest {
    /// Returns the target for one more pattern, of a queue group or plain.
    fn target(&mut self, node: &Arc<RemoteNode>, key: &Key) -> Arc<Target> {
        let new = || Arc::new(Target::Node(NodeInterest::new(node, key.queue.clone(), &self.forgotten)));
        let target = self.targets.entry(group_of(key)).or_insert_with(new);
        if let Target::Node(interest) = &**target {
            // This comes before any lookup can find the target.
            interest.patterns.add(1);
        }
        Arc::clone(target)
    }

    /// Removes a pattern from its target.
    fn leave(&mut self, key: &Key) {
        let group = group_of(key);
        let Some(Target::Node(interest)) = self.targets.get(&group).map(|target| &**target) else { return };
        interest.patterns.take_off(1);
        if interest.patterns.get() == 0 {
            self.targets.remove(&group);
        }
    }
}

impl Inbound {
    pub(crate) fn new(front: Arc<NatsFront>, node: Arc<RemoteNode>) -> Self {
        Self {
            front,
            node,
            interest: Interest::default(),
            burst: Burst::default(),
            fresh: false,
            began: false,
            wide: None,
            waiting: Waiting::default(),
        }
    }

    /// Starts a burst, unless one has started already.
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.began, true) {
            self.burst.begin(Instant::now());
        }
        self.fresh = true;
    }

    fn change(&mut self, row: &Row) -> Result<(), &'static str> {
        match row.change {
            Change::ForgetAll => self.forget_all(),
            Change::Add => self.add(row)?,
            Change::Remove => self.remove(row),
        }
        Ok(())
    }

    fn key(account: &Account, row: &Row) -> Key {
        let queue = (!row.queue.is_empty()).then(|| account.router().queue_name(&row.queue));
        Key { account: row.account.clone(), pattern: (&*row.pattern).into(), queue }
    }

    fn add(&mut self, row: &Row) -> Result<(), &'static str> {
        let text = &row.pattern;
        let Some(account) = self.front.accounts().get_for_node(row.account.as_deref()) else {
            return self.refuse(text);
        };
        let (router, routes) = (account.router(), Arc::clone(self.front.accounts().routes()));
        let key = Self::key(&account, row);
        if self.interest.routes.contains_key(&key) {
            return Ok(());
        }
        let bytes = row_bytes(row);
        let limits = routes.limits();
        let is_full = self.interest.routes.len() >= limits.interest_max
            || self.interest.bytes + bytes > limits.interest_bytes_max;
        if is_full {
            return self.refuse(text);
        }
        // The nodes may have different limits on subjects. One that is too long here cannot be published
        // here.
        let Ok(pattern) = Pattern::parse(Dialect::Nats, text, router.limits()) else {
            return if text.is_empty() { Err("a subscription to nothing") } else { self.refuse(text) };
        };
        let target = self.interest.target(&self.node, &key);
        match router.follow_node(&pattern, &target) {
            Ok(route) => {
                self.interest.bytes += bytes;
                self.interest.routes.insert(key, route);
                self.node.interest.add(1);
                routes.metrics().interest.inc();
            }
            Err(_) => {
                self.interest.leave(&key);
                return self.refuse(text);
            }
        }
        Ok(())
    }

    fn refuse(&mut self, text: &[u8]) -> Result<(), &'static str> {
        self.front.accounts().routes().metrics().interest_refused.inc();
        if !std::mem::replace(&mut self.interest.logged, true) {
            tracing::warn!(
                node = %self.node.id, subject = %text.escape_ascii(), known = self.interest.routes.len(),
                "another node has more subscribers than this one accepts: the others do not get messages published here"
            );
        }
        Ok(())
    }

    fn remove(&mut self, row: &Row) {
        let Some(account) = self.front.accounts().get_for_node(row.account.as_deref()) else { return };
        let key = Self::key(&account, row);
        let Some(route) = self.interest.routes.remove(&key) else { return };
        take_off(&mut self.interest.bytes, row_bytes(row), "bytes of interest");
        account.router().remove(route);
        self.interest.leave(&key);
        self.node.interest.take_off(1);
        self.front.accounts().routes().metrics().interest.dec();
    }

    /// Drops all interest, which stops counting at once. New interest has routes of its own and does not wait
    /// until the old ones are removed.
    fn forget_all(&mut self) {
        let Interest { routes, forgotten, .. } = std::mem::take(&mut self.interest);
        forgotten.store(true, Ordering::Relaxed);
        if routes.len() > REMOVED_INLINE_MAX
            && let Some(spawner) = Spawner::try_current()
        {
            let (front, node) = (Arc::clone(&self.front), Arc::clone(&self.node));
            // The task is not awaited.
            drop(spawner.spawn_blocking(move || forget(&front, &node, routes)));
        } else {
            forget(&self.front, &self.node, routes);
        }
    }

    /// Delivers a message, or queues it if earlier ones are waiting.
    fn message(&mut self, frame: Bytes) -> Result<(), &'static str> {
        let message = Inward::decode(frame.clone())?;
        self.count(&message);
        if !self.is_under_way() {
            self.deliver(message);
        } else if !self.waiting.push(&frame) {
            self.dropped("waiting_full", 1);
        }
        Ok(())
    }

    fn count(&self, message: &Inward) {
        let metrics = self.front.accounts().routes().metrics();
        let bytes = (message.payload.len() + message.headers.as_ref().map_or(0, Bytes::len)) as u64;
        metrics.messages_in.inc();
        metrics.bytes_in.inc_by(bytes);
        self.node.messages_in.fetch_add(1, Ordering::Relaxed);
        self.node.bytes_in.fetch_add(bytes, Ordering::Relaxed);
    }

    fn deliver(&mut self, message: Inward) {
        let here = Here { plain: message.plain, queues: &message.queues };
        let Some(account) = self.front.accounts().get_for_node(message.account.as_deref()) else { return };
        let words = message.message();
        let letter = Letter { message: &words, at: message.at.as_deref() };
        let begun = account.router().begin_here(&mut self.burst, letter, here);
        match begun {
            Begun::Done(served) => {
                self.delivered(&message, served);
                if self.burst.crossings.is_empty() {
                    return;
                }
                let spread = Spread::crossing(&mut self.burst, served);
                self.wide = Some(Box::new(Wide { account, message, spread }));
            }
            Begun::Wide(targets) => {
                let spread = Spread::wide_to(targets, message.at.as_deref());
                self.wide = Some(Box::new(Wide { account, message, spread }));
            }
        }
        self.spread();
    }

    /// Continues with a message for very many subscribers, or for other accounts, until this turn is over.
    fn spread(&mut self) {
        let Some(mut wide) = self.wide.take() else { return };
        let Wide { account, message, spread } = &mut *wide;
        let until = self.burst.read_at + TURN;
        let here = Some(Here { plain: message.plain, queues: &message.queues });
        let words = message.message();
        let turn = Turn { burst: &mut self.burst, origin: None, message: &words, here, until };
        // Topics capture it where it was published.
        if spread.go_on(account.router(), turn, &mut |_, _| {}).is_some() {
            if let Some(served) = spread.groups() {
                self.delivered(message, served);
            }
        } else {
            self.wide = Some(wide);
        }
    }

    fn delivered(&self, message: &Inward, served: usize) {
        self.dropped("no_member", message.queues.len().saturating_sub(served));
    }

    fn dropped(&self, reason: &'static str, count: usize) {
        if count > 0 {
            self.front.accounts().routes().metrics().dropped(reason).inc_by(count as u64);
        }
    }
}

impl NatsReceiver for Inbound {
    fn take(&mut self, frame: NatsFrame, payload: Bytes) -> Result<(), &'static str> {
        self.begin();
        match frame {
            NatsFrame::Interest => {
                for row in wire::rows(payload) {
                    self.burst.searched();
                    self.change(&row?)?;
                }
            }
            NatsFrame::Message => self.message(payload)?,
        }
        Ok(())
    }

    fn is_due(&mut self) -> bool {
        self.burst.is_due()
    }

    fn is_under_way(&self) -> bool {
        self.wide.is_some() || !self.waiting.is_empty()
    }

    fn go_on(&mut self) {
        if !self.is_under_way() {
            return;
        }
        self.begin();
        self.spread();
        while self.wide.is_none() && self.burst.read_at.elapsed() < TURN {
            let Some(frame) = self.waiting.pop() else { break };
            self.deliver(Inward::decode(frame).expect("it was checked on arrival"));
        }
    }

    fn settle(&mut self) -> bool {
        if !std::mem::replace(&mut self.fresh, false) {
            return false;
        }
        self.began = false;
        self.burst.finish(self.front.metrics());
        // The link carries more than this, so it is not slowed for a slow consumer. That consumer is
        // disconnected if it is too slow.
        drop(self.burst.take_crowded());
        true
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        self.settle();
        self.dropped("link_ended", self.waiting.len());
        self.front.accounts().routes().node_gone(&self.node);
        self.forget_all();
    }
}

fn forget(front: &NatsFront, node: &RemoteNode, routes: HashMap<Key, Route>) {
    let count = routes.len();
    for (key, route) in routes {
        if let Some(account) = front.accounts().get_for_node(key.account()) {
            account.router().remove(route);
        }
    }
    node.interest.take_off(count as u64);
    front.accounts().routes().metrics().interest.dec_by(i64_of(count));
}

fn row_bytes(row: &Row) -> usize {
    ROW_OVERHEAD
        + row.account.as_ref().map_or(0, |account| account.len())
        + row.pattern.len()
        + row.queue.len()
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use tailrace_nats_wire::Message;
    use tailrace_types::NodeId;

    use super::wire::Outward;
    use super::*;
    use crate::testing::{front, subscriber};

    fn inbound(front: &Arc<NatsFront>) -> Inbound {
        let node = front.accounts().routes().node_came(NodeId(2));
        Inbound::new(Arc::clone(front), node)
    }

    fn frame(plain: bool, queues: &[&[u8]]) -> Bytes {
        let message = Message { subject: b"r", reply: None, headers: None, payload: b"x" };
        let mut out = BytesMut::new();
        Outward { letter: Letter::of(&message), account: None, plain }.put(&mut out, queues.iter().copied());
        out.freeze()
    }

    /// Takes a frame as a link does. Returns how many turns other tasks get meanwhile.
    fn take(inbound: &mut Inbound, frame: Bytes) -> usize {
        inbound.take(NatsFrame::Message, frame).unwrap();
        let mut turns = 0;
        while inbound.is_due() || inbound.is_under_way() {
            turn(inbound);
            turns += 1;
        }
        turns
    }

    /// Gives other tasks a turn, and then continues.
    fn turn(inbound: &mut Inbound) {
        assert!(inbound.settle());
        inbound.go_on();
    }

    /// Takes a message for so many subscribers that it takes longer than a turn.
    fn take_wide(inbound: &mut Inbound) {
        inbound.take(NatsFrame::Message, frame(true, &[])).unwrap();
        assert!(inbound.is_under_way(), "it takes many milliseconds on any machine");
    }

    fn message_on(subject: &[u8], payload: &[u8]) -> Bytes {
        let message = Message { subject, reply: None, headers: None, payload };
        let mut out = BytesMut::new();
        Outward { letter: Letter::of(&message), account: None, plain: true }
            .put(&mut out, std::iter::empty());
        out.freeze()
    }

    #[test]
    fn messages_behind_one_for_very_many_wait_and_come_in_their_order() {
        let front = Arc::new(front());
        let _many = subscriber(&front, b"r", None, 30_000);
        let client = subscriber(&front, b"s", None, 1);
        let mut inbound = inbound(&front);
        take_wide(&mut inbound);
        for payload in [b"1", b"2", b"3"] {
            inbound.take(NatsFrame::Message, message_on(b"s", payload)).unwrap();
            assert_eq!(client.sent().0, 0);
        }
        assert_eq!(
            inbound.take(NatsFrame::Message, Bytes::from_static(b"x")),
            Err("a truncated NATS message")
        );
        while inbound.wide.is_some() {
            assert_eq!(client.sent().0, 0);
            turn(&mut inbound);
        }
        while inbound.is_under_way() {
            turn(&mut inbound);
        }
        inbound.settle();
        let (mut got, mut batch) = (Vec::new(), client.out.take());
        while !batch.is_empty() {
            let mut vectors = [std::io::IoSlice::new(&[]); 1];
            batch.vectors(&mut vectors);
            let bytes = vectors[0].len();
            got.extend_from_slice(&vectors[0]);
            batch.advance(bytes);
        }
        assert_eq!(got, b"MSG s 0 1\r\n1\r\nMSG s 0 1\r\n2\r\nMSG s 0 1\r\n3\r\n");
    }

    #[test]
    fn a_message_overtakes_none_that_waits() {
        let front = Arc::new(front());
        let client = subscriber(&front, b"s", None, 1);
        let mut inbound = inbound(&front);
        assert!(inbound.waiting.push(&message_on(b"s", b"1")), "a turn has ended before this message");
        inbound.take(NatsFrame::Message, message_on(b"s", b"2")).unwrap();
        assert_eq!((client.sent().0, inbound.waiting.len()), (0, 2));
        while inbound.is_under_way() {
            turn(&mut inbound);
        }
        assert_eq!(client.sent().0, 2);
    }

    #[test]
    fn what_waits_is_bounded_and_what_is_dropped_is_counted() {
        let front = Arc::new(front());
        let _many = subscriber(&front, b"r", None, 30_000);
        let client = subscriber(&front, b"s", None, 1);
        let metrics = front.accounts().routes().metrics();
        let mut inbound = inbound(&front);
        take_wide(&mut inbound);
        let message = message_on(b"s", &[7; 100_000]);
        (0..12).for_each(|_| inbound.take(NatsFrame::Message, message.clone()).unwrap());
        assert_eq!((inbound.waiting.len(), metrics.dropped("waiting_full").get()), (10, 2));
        while inbound.is_under_way() {
            turn(&mut inbound);
        }
        assert_eq!((client.sent().0, metrics.messages_in.get()), (10, 13));
        take_wide(&mut inbound);
        inbound.take(NatsFrame::Message, message).unwrap();
        drop(inbound);
        assert_eq!((client.sent().0, metrics.dropped("link_ended").get()), (10, 1));
    }

    #[test]
    fn word_of_interest_waits_for_no_message() {
        let front = Arc::new(front());
        let _many = subscriber(&front, b"r", None, 30_000);
        let mut inbound = inbound(&front);
        take_wide(&mut inbound);
        let mut rows = BytesMut::new();
        wire::put_row(&mut rows, Change::Add, None, b"inbox", b"");
        inbound.take(NatsFrame::Interest, rows.freeze()).unwrap();
        assert!(inbound.wide.is_some() && front.router().reaches_anybody(b"inbox"));
    }

    #[test]
    fn messages_that_many_get_take_several_turns() {
        // Each of these takes many milliseconds on any machine.
        for (messages, subscriptions) in [(2_000, 300), (30, 20_000)] {
            let front = Arc::new(front());
            let client = subscriber(&front, b"r", None, subscriptions);
            let mut inbound = inbound(&front);
            let turns: usize = (0..messages).map(|_| take(&mut inbound, frame(true, &[]))).sum();
            assert_eq!(client.sent().0, messages * subscriptions);
            assert!(turns > 1, "{messages} messages");
        }
    }

    #[test]
    fn of_very_many_those_get_a_message_whom_it_is_for() {
        let front = Arc::new(front());
        let plain = subscriber(&front, b"r", None, 3_000);
        let (g, h) = (subscriber(&front, b"r", Some(b"g"), 3_000), subscriber(&front, b"r", Some(b"h"), 10));
        let mut inbound = inbound(&front);
        let sent = || [plain.sent().0, g.sent().0, h.sent().0];
        take(&mut inbound, frame(false, &[b"g"]));
        assert_eq!(sent(), [0, 1, 0]);
        take(&mut inbound, frame(true, &[b"g", b"h", b"i"]));
        assert_eq!(sent(), [3_000, 2, 1]);
        take(&mut inbound, frame(true, &[]));
        assert_eq!(sent(), [6_000, 2, 1]);
        let dropped = front.accounts().routes().metrics().dropped("no_member").get();
        assert_eq!(dropped, 1, "the third group has no member here");
    }
}
