//! This node's interest, which it announces to the other nodes.
//!
//! Subscribers are counted per pattern and queue group. The first subscriber and the end of the last one are
//! announced to every node at once, in the same queue as the messages for that node. A new link gets the
//! whole table, piece by piece. Pieces and changes are both queued under the table's lock, so whatever is
//! queued last is true. Adding a row twice is harmless.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tailrace_env::time::Duration;
use tailrace_env::{task, time};

use bytes::BytesMut;
use parking_lot::Mutex;
use tailrace_env::sync::Notify;
use tailrace_types::{NodeId, take_off};

use super::wire::{self, Change};
use tailrace_peers::{NatsFrame, NatsUnsent, Peers};

/// Rows and bytes in one piece of the table. The table's lock is held while they are copied.
const PIECE_ROWS: usize = 512;
const PIECE_BYTES: usize = 32 * 1024;

/// The rest of the table waits while more bytes than this wait for a link.
const WAITING_BYTES: usize = 1 << 20;

/// Delay before a link that is down is tried again.
const DOWN_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A pattern of an account, and its queue group, if any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// `None` for the global one.
    pub(super) account: Option<Arc<str>>,
    pub(super) pattern: Box<[u8]>,
    pub(super) queue: Option<Arc<[u8]>>,
}

impl Key {
    pub(super) fn queue(&self) -> &[u8] {
        self.queue.as_deref().unwrap_or_default()
    }

    pub(super) fn account(&self) -> Option<&str> {
        self.account.as_deref()
    }

    fn row_bytes(&self) -> usize {
        wire::row_bytes(self.account(), &self.pattern, self.queue())
    }

    fn put_row(&self, out: &mut BytesMut, change: Change) {
        wire::put_row(out, change, self.account(), &self.pattern, self.queue());
    }
}

/// The receiver of announcements.
pub(super) trait Send: std::marker::Send + Sync + 'static {
    /// Queues rows that take this many bytes.
    fn rows(&self, to: NodeId, bytes: usize, write: &mut dyn FnMut(&mut BytesMut)) -> Result<(), NatsUnsent>;
}

impl Send for OnceLock<Peers> {
    fn rows(&self, to: NodeId, bytes: usize, write: &mut dyn FnMut(&mut BytesMut)) -> Result<(), NatsUnsent> {
        let peers = self.get().ok_or(NatsUnsent::Down)?;
        peers.send_nats(to, NatsFrame::Interest, bytes, |out| write(out))
    }
}

/// The table of this node's interest.
pub(super) struct OwnInterest<S> {
    state: Mutex<InterestState>,
    to: Arc<S>,
    /// Whether the other nodes understand accounts. Changed under the table's lock.
    has_accounts: AtomicBool,
}

#[derive(Default)]
struct InterestState {
    counts: BTreeMap<Arc<Key>, usize>,
    feeds: BTreeMap<NodeId, Arc<Feed>>,
}

/// The announcements to one node, as long as its link lasts.
#[derive(Debug, Default)]
pub(super) struct Feed {
    /// Whether there was no room for a change, so that the whole table has to be sent again.
    behind: AtomicBool,
    ended: AtomicBool,
    wake: Notify,
}

/// The outcome of sending one piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// There are more rows after this one.
    Upto(Arc<Key>),
    /// That was the last piece.
    Done,
    /// There is no room in the queue.
    Full,
    /// The link is down: not usable yet, or its end has not been reported yet.
    Down,
    /// The link has ended.
    Ended,
}

impl<S: Send> OwnInterest<S> {
    pub(super) fn new(to: Arc<S>) -> Self {
        Self { state: Mutex::default(), to, has_accounts: AtomicBool::new(false) }
    }

    /// Counts another subscriber. Call this once messages can be delivered to it.
    pub(super) fn add(
        &self,
        account: Option<&Arc<str>>,
        pattern: &[u8],
        queue: Option<&Arc<[u8]>>,
    ) -> Arc<Key> {
        let key = Key { account: account.cloned(), pattern: pattern.into(), queue: queue.map(Arc::clone) };
        let key = Arc::new(key);
        let mut state = self.state.lock();
        if let Some((known, count)) = state.counts.range_mut::<Key, _>(&*key..=&*key).next() {
            *count += 1;
            return Arc::clone(known);
        }
        state.counts.insert(Arc::clone(&key), 1);
        self.tell(&state, Change::Add, &key);
        key
    }

    /// Removes a subscriber from the count.
    pub(super) fn remove(&self, key: &Arc<Key>) {
        let mut state = self.state.lock();
        let count = state.counts.get_mut(key).expect("all subscribers are counted");
        take_off(count, 1, "subscribers");
        if *count == 0 {
            state.counts.remove(key);
            self.tell(&state, Change::Remove, key);
        }
    }

    /// Returns the number of different patterns, with their groups.
    pub(super) fn len(&self) -> usize {
        self.state.lock().counts.len()
    }

    /// Announces interest in other accounts than the global one from now on. The links hear the whole table.
    pub(super) fn announce_accounts(&self) {
        let state = self.state.lock();
        if !self.has_accounts.swap(true, Ordering::Relaxed) {
            for feed in state.feeds.values() {
                feed.behind.store(true, Ordering::Relaxed);
                feed.wake.notify_one();
            }
        }
    }

    /// Whether it announces that. The other nodes then know level 2 of their protocol.
    pub(super) fn has_accounts(&self) -> bool {
        self.has_accounts.load(Ordering::Relaxed)
    }

    fn is_told(&self, key: &Key) -> bool {
        key.account.is_none() || self.has_accounts()
    }

    fn tell(&self, state: &InterestState, change: Change, key: &Key) {
        if !self.is_told(key) {
            return;
        }
        for (node, feed) in &state.feeds {
            if feed.behind.load(Ordering::Relaxed) {
                continue;
            }
            let queued = self.to.rows(*node, key.row_bytes(), &mut |out| key.put_row(out, change));
            if queued.is_err() {
                // If the link is down, its end will be reported soon.
                feed.behind.store(true, Ordering::Relaxed);
                feed.wake.notify_one();
            }
        }
    }

    /// Starts the feed of a new link, which gets all changes from now on. The caller sends the table with
    /// [`OwnInterest::piece`].
    pub(super) fn begin(&self, node: NodeId) -> Arc<Feed> {
        let feed = Arc::new(Feed::default());
        if let Some(before) = self.state.lock().feeds.insert(node, Arc::clone(&feed)) {
            before.end();
        }
        feed
    }

    /// Ends the feed of a link that is down.
    pub(super) fn end(&self, node: NodeId) {
        if let Some(feed) = self.state.lock().feeds.remove(&node) {
            feed.end();
        }
    }

    /// Queues the next piece of the table, after `after`. If the link has fallen behind, the first piece
    /// starts by withdrawing all that was announced before.
    pub(super) fn piece(&self, node: NodeId, feed: &Feed, after: Option<&Arc<Key>>) -> Piece {
        let state = self.state.lock();
        if feed.ended.load(Ordering::Relaxed) {
            return Piece::Ended;
        }
        let forget = after.is_none() && feed.behind.load(Ordering::Relaxed);
        let from = after.map_or(Bound::Unbounded, |key| Bound::Excluded(Arc::clone(key)));
        let (mut bytes, mut keys) = (if forget { wire::row_bytes(None, b"", b"") } else { 0 }, Vec::new());
        let keys_left = state.counts.range((from, Bound::Unbounded)).map(|(key, _)| key);
        for key in keys_left.filter(|key| self.is_told(key)) {
            if keys.len() >= PIECE_ROWS || bytes >= PIECE_BYTES {
                break;
            }
            bytes += key.row_bytes();
            keys.push(key);
        }
        if keys.is_empty() && !forget {
            return Piece::Done;
        }
        self.queued(node, feed, bytes, &keys, forget)
    }

    /// Queues the rows of `keys`, which take `bytes`. If `forget` is set, a row that withdraws the others
    /// comes first.
    fn queued(&self, node: NodeId, feed: &Feed, bytes: usize, keys: &[&Arc<Key>], forget: bool) -> Piece {
        let queued = self.to.rows(node, bytes, &mut |out| {
            if forget {
                wire::put_row(out, Change::ForgetAll, None, b"", b"");
            }
            keys.iter().for_each(|key| key.put_row(out, Change::Add));
        });
        match queued {
            Ok(()) => {
                if forget {
                    feed.behind.store(false, Ordering::Relaxed);
                }
                keys.last().map_or(Piece::Done, |last| Piece::Upto(Arc::clone(last)))
            }
            Err(NatsUnsent::QueueFull) => Piece::Full,
            // A piece is smaller than the smallest limit on frames.
            Err(NatsUnsent::Down | NatsUnsent::TooLarge) => Piece::Down,
        }
    }
}

impl Feed {
    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }
}

/// Sends a link the whole table, and sends it again whenever the link has fallen behind. Ends with the link.
pub(super) async fn feed(
    interest: Arc<OwnInterest<OnceLock<Peers>>>,
    peers: Peers,
    node: NodeId,
    feed: Arc<Feed>,
) {
    let mut after = None;
    loop {
        // If the link falls behind again, the table is sent from its start.
        if feed.behind.load(Ordering::Relaxed) {
            after = None;
            peers.nats_room(node, WAITING_BYTES).await;
        }
        match interest.piece(node, &feed, after.as_ref()) {
            Piece::Upto(key) => {
                after = Some(key);
                peers.nats_room(node, WAITING_BYTES).await;
                task::yield_now().await;
            }
            Piece::Full => peers.nats_room(node, WAITING_BYTES).await,
            Piece::Done => feed.wake.notified().await,
            Piece::Down => time::sleep(DOWN_RETRY_INTERVAL).await,
            Piece::Ended => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const NODE: NodeId = NodeId(2);

    /// A queue that records what its reader knows.
    #[derive(Default)]
    struct Queue {
        sent: Mutex<BytesMut>,
        full: AtomicBool,
    }

    impl Send for Queue {
        fn rows(
            &self,
            _: NodeId,
            bytes: usize,
            write: &mut dyn FnMut(&mut BytesMut),
        ) -> Result<(), NatsUnsent> {
            if self.full.load(Ordering::Relaxed) {
                return Err(NatsUnsent::QueueFull);
            }
            let mut sent = self.sent.lock();
            let before = sent.len();
            write(&mut sent);
            assert_eq!(sent.len() - before, bytes);
            Ok(())
        }
    }

    impl Queue {
        /// Returns what a reader of all rows knows.
        fn known(&self) -> BTreeSet<(String, String)> {
            let mut known = BTreeSet::new();
            for row in wire::rows(self.sent.lock().clone().freeze()) {
                let row = row.unwrap();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let account = row.account.map_or(String::new(), |account| format!("{account}/"));
                let key = (account + &text(&row.pattern), text(&row.queue));
                match row.change {
                    Change::Add => drop(known.insert(key)),
                    Change::Remove => drop(known.remove(&key)),
                    Change::ForgetAll => known.clear(),
                }
            }
            known
        }
    }

    fn table() -> (OwnInterest<Queue>, Arc<Queue>) {
        let queue = Arc::new(Queue::default());
        (OwnInterest::new(Arc::clone(&queue)), queue)
    }

    fn pairs(pairs: &[(&str, &str)]) -> BTreeSet<(String, String)> {
        pairs.iter().map(|(pattern, queue)| ((*pattern).to_owned(), (*queue).to_owned())).collect()
    }

    fn finish(table: &OwnInterest<Queue>, feed: &Feed, mut after: Option<Arc<Key>>) -> usize {
        let mut pieces = 0;
        loop {
            match table.piece(NODE, feed, after.as_ref()) {
                Piece::Upto(key) => after = Some(key),
                Piece::Done => return pieces,
                other => panic!("{other:?}"),
            }
            pieces += 1;
        }
    }

    #[test]
    fn only_the_first_subscriber_and_the_end_of_the_last_are_told() {
        let (table, queue) = table();
        let feed = table.begin(NODE);
        assert_eq!(finish(&table, &feed, None), 0);
        let group: Arc<[u8]> = Arc::from(&b"g"[..]);
        let first = table.add(None, b"a", None);
        let again = table.add(None, b"a", None);
        let grouped = table.add(None, b"a", Some(&group));
        assert!(Arc::ptr_eq(&first, &again));
        let told = queue.sent.lock().len();
        assert_eq!(told, wire::row_bytes(None, b"a", b"") + wire::row_bytes(None, b"a", b"g"));
        table.remove(&first);
        assert_eq!(queue.sent.lock().len(), told, "another subscriber is left");
        assert_eq!(queue.known(), pairs(&[("a", ""), ("a", "g")]));
        table.remove(&again);
        table.remove(&grouped);
        assert_eq!((queue.known(), table.len()), (pairs(&[]), 0));
    }

    /// Members are counted like plain subscribers, and separately from them.
    #[test]
    fn members_of_a_queue_group_are_counted() {
        let group: Arc<[u8]> = Arc::from(&b"g"[..]);
        for first_to_leave in [0, 1] {
            let (table, queue) = table();
            let feed = table.begin(NODE);
            assert_eq!(finish(&table, &feed, None), 0);
            let mut members = vec![table.add(None, b"a", Some(&group)), table.add(None, b"a", Some(&group))];
            let alone = table.add(None, b"a", Some(&Arc::from(&b"other"[..])));
            table.remove(&members.remove(first_to_leave));
            assert_eq!(queue.known(), pairs(&[("a", "g"), ("a", "other")]), "another member is left");
            table.remove(&alone);
            assert_eq!(queue.known(), pairs(&[("a", "g")]));
            table.remove(&members[0]);
            assert_eq!((queue.known(), table.len()), (pairs(&[]), 0));
        }
    }

    #[test]
    fn changes_while_the_table_is_sent_are_true_at_its_end() {
        let (table, queue) = table();
        let keys: Vec<_> = (0..2000).map(|n| table.add(None, format!("s.{n:04}").as_bytes(), None)).collect();
        let feed = table.begin(NODE);
        let Piece::Upto(after) = table.piece(NODE, &feed, None) else { panic!("there is more") };
        // A subscriber that was announced and one that was not leave, and new ones come before and after the
        // position.
        table.remove(&keys[0]);
        table.remove(&keys[1999]);
        table.add(None, b"a", None);
        table.add(None, b"z", None);
        assert!(finish(&table, &feed, Some(after)) >= 2);
        let mut expected: BTreeSet<_> = (1..1999).map(|n| (format!("s.{n:04}"), String::new())).collect();
        expected.extend(pairs(&[("a", ""), ("z", "")]));
        assert_eq!(queue.known(), expected);
    }

    #[test]
    fn a_link_that_fell_behind_hears_everything_again() {
        let (table, queue) = table();
        let feed = table.begin(NODE);
        let gone = table.add(None, b"gone", None);
        let stays = table.add(None, b"stays", None);
        queue.full.store(true, Ordering::Relaxed);
        table.remove(&gone);
        table.add(None, b"new", None);
        assert_eq!(table.piece(NODE, &feed, None), Piece::Full);
        queue.full.store(false, Ordering::Relaxed);
        // The change is not announced on its own. It comes with the table.
        table.add(None, b"newer", None);
        assert_eq!(queue.known(), pairs(&[("gone", ""), ("stays", "")]));
        finish(&table, &feed, None);
        assert_eq!(queue.known(), pairs(&[("new", ""), ("newer", ""), ("stays", "")]));
        table.remove(&stays);
        assert_eq!(queue.known(), pairs(&[("new", ""), ("newer", "")]));
    }

    #[test]
    fn a_link_that_fell_behind_with_nothing_to_tell_forgets() {
        let (table, queue) = table();
        let feed = table.begin(NODE);
        let gone = table.add(None, b"gone", None);
        queue.full.store(true, Ordering::Relaxed);
        table.remove(&gone);
        queue.full.store(false, Ordering::Relaxed);
        assert_eq!(finish(&table, &feed, None), 0);
        assert_eq!(queue.known(), pairs(&[]));
    }

    /// The others would not understand it, and close the link.
    #[test]
    fn accounts_are_announced_once_all_nodes_understand_them() {
        let (table, queue) = table();
        let feed = table.begin(NODE);
        let account: Arc<str> = "A".into();
        let early = table.add(Some(&account), b"early", None);
        table.add(Some(&account), b"stays", None);
        table.add(None, b"plain", None);
        finish(&table, &feed, None);
        table.remove(&early);
        assert_eq!(queue.known(), pairs(&[("plain", "")]));
        table.announce_accounts();
        finish(&table, &feed, None);
        assert_eq!(queue.known(), pairs(&[("A/stays", ""), ("plain", "")]));
        let later = table.add(Some(&account), b"later", None);
        let same_elsewhere = table.add(None, b"later", None);
        table.remove(&same_elsewhere);
        assert_eq!(queue.known(), pairs(&[("A/later", ""), ("A/stays", ""), ("plain", "")]));
        table.remove(&later);
        assert_eq!(queue.known(), pairs(&[("A/stays", ""), ("plain", "")]));
    }

    #[test]
    fn the_feed_of_a_link_that_ended_ends() {
        let (table, _queue) = table();
        table.add(None, b"a", None);
        let feed = table.begin(NODE);
        let newer = table.begin(NODE);
        assert_eq!(table.piece(NODE, &feed, None), Piece::Ended);
        table.end(NODE);
        assert_eq!(table.piece(NODE, &newer, None), Piece::Ended);
    }
}
