//! The front as a sink of the taps: decodes the ranges that are read back from the log, and publishes their
//! records.

use std::ops::ControlFlow;
use std::sync::Arc;
use tailrace_env::aside::TURN;
use tailrace_env::time::Duration;
use tailrace_env::{task, time};

use bytes::Bytes;
use tailrace_nats_wire::Message;
use tailrace_records::{BatchHeader, Compression, HEADER_BYTES, Record, RecordIter, Strictness};
use tailrace_types::{Offset, TopicId};

use super::NAME;
use crate::burst::Burst;
use crate::fan_out::Turn;
use crate::front::NatsFront;
use crate::mapping::{MessageScratch, TopicSubjects, Undeliverable};
use crate::spread::Spread;
use tailrace_env::sync::OwnedSemaphorePermit;
use tailrace_node::partitions::Topic;
use tailrace_node::taps::{Committed, Intake, NotTaken, Sink, Taken, TapBudget, Took, Waited};

/// Bytes published before subscribers get a turn to take them, and other tasks a turn on the event loop.
const ROUND_BYTES: usize = 64 * 1024;

/// Records after which the clock is checked, whether they were published or not.
const ROUND_RECORDS: usize = 256;

/// Longest time that all compressed batches of one piece together wait for subscribers that are behind:
/// several times longer than uncompressed ones can. A piece may expand to gigabytes, and others wait for its
/// place, and for the room that it takes.
const PATIENCE: Duration = Duration::from_secs(1);

impl Sink for NatsFront {
    fn name(&self) -> &'static str {
        NAME
    }

    fn wants(&self, topic: &Topic) -> bool {
        self.listens_to(topic)
    }

    fn budget(&self) -> &TapBudget {
        &self.live().budget
    }

    fn begin(self: Arc<Self>) -> Box<dyn Intake> {
        Box::new(Publisher::new(self))
    }

    fn skipped(&self, records: u64) {
        self.metrics().live.skipped.inc_by(records);
    }
}

/// A consumer of one partition's ranges, which publishes the records of their batches.
struct Publisher {
    front: Arc<NatsFront>,
    /// Memory that is reused from record to record.
    scratch: MessageScratch,
    burst: Burst,
    /// Bytes since subscribers last had a turn, of records or of the messages they became, and records.
    bytes: usize,
    records: usize,
    /// Records and deliveries that are not counted yet.
    uncounted: (u64, u64),
    /// Whether the batch being published was compressed.
    was_compressed: bool,
    /// The rest of [`PATIENCE`].
    patience: Duration,
    /// Room that was waited for, for the next compressed batch.
    room: Option<OwnedSemaphorePermit>,
}

impl Intake for Publisher {
    fn take<'a>(&'a mut self, topic: &'a Topic, piece: &'a Committed) -> Taken<'a> {
        Box::pin(self.publish_batches(topic, piece))
    }

    fn wait(&mut self) -> Waited<'_> {
        Box::pin(async move {
            self.room = Some(self.front.live().wait_for_room().await?);
            Ok(())
        })
    }
}

impl Publisher {
    fn new(front: Arc<NatsFront>) -> Self {
        Self {
            front,
            scratch: MessageScratch::default(),
            burst: Burst::default(),
            bytes: 0,
            records: 0,
            uncounted: (0, 0),
            was_compressed: false,
            patience: PATIENCE,
            room: None,
        }
    }

    async fn publish_batches(&mut self, topic: &Topic, piece: &Committed) -> Result<Took, NotTaken> {
        let Some(subjects) = self.front.live().subjects.of(topic.id) else {
            // A deleted topic has no subjects, and needs no room.
            self.room = None;
            return Ok(Took::All);
        };
        self.patience = PATIENCE;
        let mut published = Ok(Took::All);
        for batch in piece.batches() {
            published = match batch {
                Ok((header, batch)) => {
                    self.publish_batch(topic.id, &subjects, &header, batch, piece.from).await
                }
                Err(error) => Err(error.into()),
            };
            if !matches!(published, Ok(Took::All)) {
                break;
            }
        }
        // The room turned out not to be needed.
        self.room = None;
        self.give_way().await;
        published
    }

    async fn publish_batch(
        &mut self,
        topic: TopicId,
        subjects: &TopicSubjects,
        header: &BatchHeader,
        batch: Bytes,
        from: Offset,
    ) -> Result<Took, NotTaken> {
        let compression = header.attributes.compression()?;
        let body = batch.slice(HEADER_BYTES..);
        if compression == Compression::None {
            self.publish_records(topic, subjects, header, &body, from).await?;
            return Ok(Took::All);
        }
        self.set_compressed(true);
        // This comes before any wait, because other publishers to the same connections rely on this one to
        // send.
        self.give_way().await;
        let Some(room) = self.room.take().or_else(|| self.front.live().take_room()) else {
            self.set_compressed(false);
            return Ok(Took::Before(header.base_offset.max(from)));
        };
        // The room is kept until the whole batch is published.
        let unpacked = self.front.live().decompressed(compression, body, room).await?;
        self.look_at_room();
        let published = self.publish_records(topic, subjects, header, &unpacked.body, from).await;
        self.set_compressed(false);
        published.map(|()| Took::All)
    }

    async fn publish_records(
        &mut self,
        topic: TopicId,
        subjects: &TopicSubjects,
        header: &BatchHeader,
        body: &[u8],
        from: Offset,
    ) -> Result<(), NotTaken> {
        let record_bytes_max = self.front.message_limits().record_bytes_max();
        let mut records = RecordIter::new(header, body, Strictness::Lenient);
        loop {
            let began = records.position();
            let mut published = 0;
            if let Some(offset) = records.skip_longer(record_bytes_max) {
                if offset >= from {
                    self.front.metrics().live.too_large.inc();
                }
            } else {
                let Some(record) = records.next() else { return Ok(()) };
                let record = record?;
                if record.offset >= from {
                    published = self.publish(topic, subjects, &record).await;
                }
            }
            self.bytes += published.max(records.position() - began);
            self.records += 1;
            if self.is_round() {
                self.give_way().await;
            }
        }
    }

    /// Reports whether other tasks should get a turn.
    fn is_round(&mut self) -> bool {
        self.bytes >= ROUND_BYTES
            || self.burst.is_due()
            || (self.records.is_multiple_of(ROUND_RECORDS) && self.burst.read_at.elapsed() >= TURN)
    }

    /// Publishes a record. Returns the bytes of the message, or 0 if there is none.
    async fn publish(&mut self, topic: TopicId, subjects: &TopicSubjects, record: &Record<'_>) -> usize {
        let mut scratch = std::mem::take(&mut self.scratch);
        let (front, metrics) = (&self.front, &self.front.metrics().live);
        let mut bytes = 0;
        match subjects.message(record, &front.message_limits(), &mut scratch) {
            // The topic does not bind this subject. It may not publish under the subjects of another topic.
            Ok(message) if front.router().is_bound_elsewhere(message.subject, topic) => {
                metrics.bound_elsewhere.inc();
            }
            Ok(message) if front.live().subjects.is_named_elsewhere(message.subject, subjects) => {
                metrics.bound_elsewhere.inc();
            }
            Ok(message) => {
                self.deliver(&message).await;
                let headers = message.headers.map_or(0, <[u8]>::len);
                bytes = message.subject.len() + headers + message.payload.len();
            }
            Err(Undeliverable::TooLarge) => drop(metrics.too_large.inc()),
            Err(Undeliverable::Reserved) => drop(metrics.reserved.inc()),
        }
        self.scratch = scratch;
        bytes
    }

    /// Delivers a message to all subscribers. There may be very many, so others get turns meanwhile. Topics
    /// do not capture it.
    async fn deliver(&mut self, message: &Message<'_>) {
        let begun = self.front.router().begin_own(&mut self.burst, message);
        let deliveries = match Spread::of(begun, &mut self.burst) {
            ControlFlow::Break(deliveries) => deliveries,
            ControlFlow::Continue(spread) => self.spread(spread, message).await,
        };
        self.uncounted.0 += 1;
        self.uncounted.1 += deliveries as u64;
        if self.burst.take_passed_over() > 0 {
            self.front.metrics().live.skipped.inc();
        }
    }

    #[cold]
    async fn spread(&mut self, mut spread: Spread, message: &Message<'_>) -> usize {
        loop {
            let until = self.burst.read_at + TURN;
            let turn = Turn { burst: &mut self.burst, origin: None, message, here: None, until };
            if let Some(deliveries) = spread.go_on(self.front.router(), turn, &mut |_, _| {}) {
                return deliveries;
            }
            self.give_way().await;
        }
    }

    /// Sends what was published, and lets subscribers that are behind catch up a little.
    async fn give_way(&mut self) {
        let metrics = self.front.metrics();
        let (records, deliveries) = std::mem::take(&mut self.uncounted);
        metrics.live.records.inc_by(records);
        metrics.live.deliveries.inc_by(deliveries);
        (self.bytes, self.records) = (0, 0);
        self.burst.finish(metrics);
        let crowded = self.burst.take_crowded();
        match crowded.filter(|_| !self.was_compressed || !self.patience.is_zero()) {
            Some(crowded) => {
                let began = time::Instant::now();
                crowded.wait(metrics).await;
                if self.was_compressed {
                    self.patience = self.patience.saturating_sub(began.elapsed());
                }
            }
            None => task::yield_now().await,
        }
        self.burst.begin(time::Instant::now());
        self.look_at_room();
    }

    fn set_compressed(&mut self, was_compressed: bool) {
        self.was_compressed = was_compressed;
        self.look_at_room();
    }

    /// Passes over subscribers that are far behind, for a compressed batch, if others wait for its room or
    /// its time is up. Otherwise two such batches, and one subscriber that does not read, could withhold all
    /// compressed batches from everyone.
    fn look_at_room(&mut self) {
        let is_urgent = self.patience.is_zero() || self.front.live().is_scarce();
        self.burst.pass_over(self.was_compressed && is_urgent);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::task::{Context, Waker};

    use tailrace_config::{BrokerConfig, DynamicConfigs, TopicConfig};
    use tailrace_nats_wire::Message;
    use tailrace_records::{BatchBuilder, BatchOptions};
    use tailrace_subjects::{Dialect, Pattern};
    use tailrace_types::TimestampMs;

    use super::super::units;
    use super::*;
    use crate::client::Client;
    use crate::router::Begun;
    use crate::subscription::{ClientSubscription, Sid};
    use crate::testing::{front, subscriber};

    const MEGABYTE: usize = 1_000_000;

    /// A topic whose records appear under its name.
    struct TestTopic {
        front: Arc<NatsFront>,
        id: TopicId,
        subjects: TopicSubjects,
    }

    impl TestTopic {
        fn new(front: &Arc<NatsFront>, name: &str) -> Self {
            let broker = BrokerConfig::resolve(&BTreeMap::new(), &DynamicConfigs::default()).unwrap();
            let config = TopicConfig::resolve(&BTreeMap::new(), &broker).unwrap();
            let subjects = TopicSubjects::new(name, &config.tailrace_subjects);
            Self { front: Arc::clone(front), id: TopicId([name.as_bytes()[0]; 16]), subjects }
        }

        fn publisher(&self) -> Publisher {
            Publisher::new(Arc::clone(&self.front))
        }

        /// Publishes a compressed batch of this many records and bytes per record.
        async fn publish(&self, publisher: &mut Publisher, records: usize, bytes: usize) {
            let (header, batch) = batch(records, bytes);
            while self.try_publish(publisher, &header, &batch, 0).await != Took::All {
                publisher.wait().await.unwrap();
            }
            publisher.give_way().await;
        }

        /// Tries to publish a batch whose records before `from` are published already.
        async fn try_publish(
            &self,
            publisher: &mut Publisher,
            header: &BatchHeader,
            batch: &Bytes,
            from: i64,
        ) -> Took {
            let published =
                publisher.publish_batch(self.id, &self.subjects, header, batch.clone(), Offset(from));
            published.await.unwrap()
        }
    }

    fn batch(records: usize, bytes: usize) -> (BatchHeader, Bytes) {
        let compression = Compression::Lz4;
        let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
        for _ in 0..records {
            builder.push(TimestampMs(1), None, Some(&vec![0; bytes]), &[]).unwrap();
        }
        builder.build_with_header()
    }

    /// Subscribes the client, which reads nothing, to another subject.
    fn subscribe(front: &NatsFront, client: &Arc<Client>, subject: &[u8]) {
        let pattern = Pattern::parse(Dialect::Nats, subject, front.router().limits()).unwrap();
        let subscription = ClientSubscription::new(client, Sid::new(b"more"), 99, None, false);
        drop(front.router().subscribe(&pattern, subscription).unwrap());
    }

    /// Fills the buffer of the subscriber to `subject` until it is far behind.
    fn fill(front: &NatsFront, subject: &[u8], client: &Client) {
        let (mut burst, payload) = (Burst::default(), vec![0; MEGABYTE]);
        let message = Message { subject, reply: None, headers: None, payload: &payload };
        while !client.out.is_far_behind() {
            assert!(matches!(front.router().begin_own(&mut burst, &message), Begun::Done(1)));
        }
        burst.finish(front.metrics());
    }

    #[tokio::test]
    async fn who_does_not_read_two_topics_does_not_keep_a_third_from_others() {
        let front = Arc::new(front());
        let slow = subscriber(&front, b"a", None, 1);
        subscribe(&front, &slow, b"b");
        let reader = subscriber(&front, b"c", None, 1);
        let [a, b, c] = ["a", "b", "c"].map(|name| TestTopic::new(&front, name));
        let [mut to_a, mut to_b, mut to_c] = [&a, &b, &c].map(TestTopic::publisher);
        tokio::join!(
            a.publish(&mut to_a, 40, MEGABYTE),
            b.publish(&mut to_b, 40, MEGABYTE),
            c.publish(&mut to_c, 1, 1),
        );
        assert_eq!(reader.sent().0, 1);
        // The publisher did not wait until it was disconnected. The subscriber missed what was too much for
        // it.
        assert!(!slow.out.is_closed());
        let skipped = front.metrics().live.skipped.get();
        assert!(skipped > 0 && slow.sent().0 + skipped == 80, "{} and {skipped}", slow.sent().0);
    }

    #[tokio::test]
    async fn room_is_waited_for_without_a_piece() {
        let front = Arc::new(front());
        let reader = subscriber(&front, b"a", None, 1);
        let a = TestTopic::new(&front, "a");
        let mut publisher = a.publisher();
        let (header, batch) = batch(3, 10);
        let live = front.live();
        let all = Arc::clone(&live.room).try_acquire_many_owned(2 * live.most()).unwrap();
        let published =
            time::timeout(Duration::from_secs(60), a.try_publish(&mut publisher, &header, &batch, 0)).await;
        assert_eq!(published.expect("it waits for nothing"), Took::Before(Offset(0)));
        assert_eq!(a.try_publish(&mut publisher, &header, &batch, 1).await, Took::Before(Offset(1)));
        assert_eq!(reader.sent().0, 0);
        let mut wait = publisher.wait();
        assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(all);
        wait.await.unwrap();
        let other = Arc::clone(&live.room).try_acquire_many_owned(live.most()).unwrap();
        assert_eq!(a.try_publish(&mut publisher, &header, &batch, 1).await, Took::All);
        assert_eq!(live.room.available_permits(), units(live.decompressed_bytes_max), "the room is released");
        publisher.give_way().await;
        assert_eq!(reader.sent().0, 2);
        drop(other);
    }

    #[tokio::test]
    async fn a_compressed_batch_waits_for_nobody_where_room_is_scarce_or_patience_is_at_an_end() {
        for is_scarce in [false, true] {
            let front = Arc::new(front());
            let slow = subscriber(&front, b"other", None, 1);
            subscribe(&front, &slow, b"a");
            fill(&front, b"other", &slow);
            let reader = subscriber(&front, b"a", None, 1);
            let (a, before) = (TestTopic::new(&front, "a"), slow.sent().0);
            let mut publisher = a.publisher();
            let metrics = front.metrics();
            a.publish(&mut publisher, 2, 100_000).await;
            assert_eq!((slow.sent().0, metrics.live.skipped.get()), (before + 2, 0), "there is time for it");
            let stalls = metrics.stalls.get();
            assert!(stalls > 0 && publisher.patience < PATIENCE);
            let live = front.live();
            let held = is_scarce.then(|| live.take_room().unwrap());
            publisher.patience = if is_scarce { PATIENCE } else { Duration::ZERO };
            a.publish(&mut publisher, 2, 100_000).await;
            assert_eq!((slow.sent().0, metrics.live.skipped.get()), (before + 2, 2));
            assert_eq!(
                (reader.sent().0, metrics.stalls.get()),
                (4, stalls),
                "other subscribers get all records at once"
            );
            drop(held);
        }
    }
}
