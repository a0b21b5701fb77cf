//! What a leader keeps of a stream for its checks, in one epoch.

use std::sync::Arc;

use parking_lot::Mutex;
use tailrace_env::sync::Mutex as Gate;
use tailrace_jetstream::publish::PublishHeaders;
use tailrace_jetstream::stream::StreamConfig;
use tailrace_records::{Compression, DecodedBatch, Validated};
use tailrace_replication::Appended;
use tailrace_types::LeaderEpoch;

use super::answers::Answers;
use super::tail::{Entry, Tail};
use crate::partitions::{AppendWatch, PartitionHandle, Topic};
use crate::streams::ids::IdKey;
use crate::streams::rules::Rules;
use crate::streams::translator::{MessageParts, Translator};

/// A tail to which nothing is judged for so many milliseconds ends.
const IDLE_MS: i64 = 1_000;

/// A larger batch, or a compressed one, that nobody judges ends the tail, instead of being decoded under the
/// partition's lock.
const WATCHED_BYTES_MAX: usize = 64 * 1024;

/// What a leader keeps of a stream in one epoch.
pub(crate) struct Judging {
    pub(super) handle: Arc<PartitionHandle>,
    pub(super) epoch: LeaderEpoch,
    /// Requests are judged one after the other. One that waits for the table makes others wait, too:
    /// otherwise they could keep it waiting for ever.
    pub(super) gate: Gate<()>,
    pub(super) tail: Mutex<Tail>,
    pub(super) answers: Mutex<Answers>,
    /// The configuration of a topic that JetStream's API has not made.
    pub(super) plain: StreamConfig,
    pub(super) translator: Arc<dyn Translator>,
    pub(super) id_key: IdKey,
}

/// A stream when its tail was begun.
struct Stream {
    topic: Arc<Topic>,
    rules: Rules,
}

impl Judging {
    pub(super) fn new(
        handle: &Arc<PartitionHandle>,
        epoch: LeaderEpoch,
        topic: &Topic,
        translator: &Arc<dyn Translator>,
        id_key: IdKey,
    ) -> Self {
        let name = topic.name.as_str().replace('.', "_");
        Self {
            handle: Arc::clone(handle),
            epoch,
            gate: Gate::new(()),
            tail: Mutex::default(),
            answers: Mutex::default(),
            plain: StreamConfig { name, max_msg_size: -1, ..StreamConfig::default() },
            translator: Arc::clone(translator),
            id_key,
        }
    }

    /// Reports whether this node leads the stream, and has done so without a break since this was begun.
    pub(super) fn is_led(&self) -> bool {
        self.handle.leads() == Some(self.epoch) && !self.handle.is_over()
    }

    /// Reports whether it has a tail.
    #[cfg(test)]
    pub(in crate::streams) fn has_tail(&self) -> bool {
        self.tail.lock().base().is_some()
    }

    /// Begins the tail at the end of the log. Called under the partition's lock.
    pub(super) fn begin_tail(self: &Arc<Self>, topic: &Arc<Topic>, end: u64) {
        // A stream whose configuration cannot be read has no table either.
        let Ok(rules) = Rules::of(topic) else { return };
        self.tail.lock().begin(end);
        let (judging, stream) = (Arc::downgrade(self), Stream { topic: Arc::clone(topic), rules });
        let watch: AppendWatch = Box::new(move |batch, appended| {
            judging.upgrade().is_some_and(|judging| judging.watched(&stream, batch, appended))
        });
        self.handle.set_watch(watch);
    }

    /// Takes a batch into the tail that nobody judges. False if the tail has ended.
    fn watched(&self, stream: &Stream, batch: &Validated, appended: &Appended) -> bool {
        let mut tail = self.tail.lock();
        if tail.base().is_none() || appended.epoch != self.epoch {
            return false;
        }
        let now = tailrace_env::time::wall_clock().0;
        let is_idle = now.saturating_sub(tail.used_at) > IDLE_MS;
        let is_large = batch.bytes.len() > WATCHED_BYTES_MAX
            || batch.header.attributes.compression().is_ok_and(|codec| codec != Compression::None);
        if is_idle || is_large || tail.is_full() || self.take(stream, batch, appended, &mut tail).is_none() {
            tail.end();
            return false;
        }
        true
    }

    fn take(&self, stream: &Stream, batch: &Validated, appended: &Appended, tail: &mut Tail) -> Option<()> {
        let decoded = DecodedBatch::new(&batch.bytes, WATCHED_BYTES_MAX).ok()?;
        let mut parts = MessageParts::default();
        let first = appended.base_offset.get().unsigned_abs() + 1;
        for (seq, record) in (first..).zip(decoded.records()) {
            let record = record.ok()?;
            if self.translator.message(&stream.topic, &record, &mut parts) {
                self.push(tail, &stream.rules, seq, &parts, record.value.map_or(0, <[u8]>::len));
            }
        }
        Some(())
    }

    /// Adds a message to the tail, as the table will take it.
    pub(super) fn push(
        &self,
        tail: &mut Tail,
        rules: &Rules,
        seq: u64,
        parts: &MessageParts,
        payload_bytes: usize,
    ) {
        let headers = PublishHeaders::parse(&parts.headers);
        let entry = Entry {
            seq,
            subject: parts.subject.as_slice().into(),
            bytes: rules.size(parts.subject.len(), parts.headers.len(), payload_bytes),
            id: self.id_key.hash(headers.msg_id),
            rollup: headers.stored_rollup().filter(|_| rules.config.is_some()),
        };
        tail.push(entry, headers.msg_id);
    }
}
