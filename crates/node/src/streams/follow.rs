//! Keeps a table up with its log: reads what is committed, in slices, and applies it.
//!
//! One task for each table. It ends when this node no longer leads the stream, when the topic is gone, or
//! when the table cannot be kept.

use std::sync::Arc;
use tailrace_env::time::{Duration, Instant};
use tailrace_env::{select, task, time};

use bytes::Bytes;
use tailrace_config::TopicConfig;
use tailrace_env::sync::Notify;
use tailrace_env::task::stopped;
use tailrace_jetstream::contents::{Message, Purge, Rollup};
use tailrace_jetstream::publish::{PublishHeaders, Rollup as Asked};
use tailrace_records::{BatchHeader, DecodedBatch, split_batches};
use tailrace_replication::AbortedTransaction;
use tailrace_types::{Offset, TimestampMs, usize_of};

use super::failure::StreamFailure;
use super::ids::{IdHash, IdKey};
use super::live::{Ended, LiveStream, Table};
use super::rules::Rules;
use super::translator::{MessageParts, Translator};
use crate::caller::Caller;
use crate::node::Node;
use crate::partitions::{Isolation, ReadFailure, ReadOutcome, ReadTerms, Topic};

/// Bytes of the log that are read at a time, but at least one batch.
const SLICE_BYTES: u64 = 1 << 20;

/// Messages that are applied under one lock. Takes less than 10 ms.
const STEP_MESSAGES: usize = 4_096;

/// Pause before a log is read again that cannot be read for the moment.
const AGAIN: Duration = Duration::from_millis(20);

/// Most bytes of a subject that a table holds.
const SUBJECT_BYTES_MAX: usize = u16::MAX as usize;

/// Bounds of a table.
#[derive(Clone, Copy)]
struct Bound {
    messages: u64,
    subjects: u64,
    memory: usize,
    decompressed: usize,
    ids: usize,
}

impl Bound {
    fn of(node: &Node) -> Self {
        let config = node.config();
        Self {
            messages: config.tailrace_jetstream_stream_messages_max,
            subjects: config.tailrace_jetstream_stream_subjects_max,
            memory: usize_of(config.tailrace_jetstream_memory_bytes_max),
            decompressed: usize_of(config.tailrace_decompressed_bytes_max),
            ids: config.tailrace_jetstream_stream_ids_max as usize,
        }
    }
}

/// Follows the log until the table ends.
pub(super) async fn follow(node: Arc<Node>, live: Arc<LiveStream>) {
    let ended = run(&node, &live).await;
    if let Ended::Failed(failure, _) = &ended {
        tracing::warn!(partition = %live.handle.id, %failure, "the table of a stream cannot be kept");
    }
    if matches!(ended, Ended::Over) {
        node.streams.remove(&live);
    }
    // A large table takes its time to be dropped.
    drop(task::spawn_blocking(move || live.end(ended)));
}

/// What the table was last brought in line with, besides records.
#[derive(Default)]
struct Seen {
    config: Option<Arc<TopicConfig>>,
    start: Option<Offset>,
}

async fn run(node: &Arc<Node>, live: &Arc<LiveStream>) -> Ended {
    let mut stopping = node.stopping.subscribe();
    let mut changes = node.metadata_changes();
    let mut leadership = node.links.own_leadership();
    let (wake, mut seen) = (Arc::new(Notify::new()), Seen::default());
    loop {
        // Registered before it looks, so that it is woken for all that moves behind its look.
        live.handle.register_fetch(&wake);
        if let Err(ended) = catch_up(node, live, &mut seen).await {
            return ended;
        }
        let goes_on = select! {
            () = wake.notified() => true,
            changed = changes.changed() => changed.is_ok(),
            changed = leadership.changed() => changed.is_ok(),
            () = stopped(&mut stopping) => false,
        };
        if !goes_on {
            return Ended::Over;
        }
    }
}

fn failed(failure: StreamFailure) -> Ended {
    Ended::Failed(failure, Instant::now())
}

/// Applies all that is committed.
async fn catch_up(node: &Arc<Node>, live: &Arc<LiveStream>, seen: &mut Seen) -> Result<(), Ended> {
    loop {
        if !live.is_led() || *node.stopping.borrow() {
            return Err(Ended::Over);
        }
        let topic = node.topics().by_id(live.handle.group.topic.0).ok_or(Ended::Over)?;
        // A Kafka client may add partitions to a topic of its own, which is no stream then.
        if topic.partition_count() != 1 {
            return Err(Ended::Over);
        }
        let bounds = live.handle.bounds();
        let is_same = seen.config.as_ref().is_some_and(|config| Arc::ptr_eq(config, &topic.config));
        if !is_same || seen.start != Some(bounds.log_start) {
            let (table, start, config) = (Arc::clone(live), bounds.log_start, Arc::clone(&topic.config));
            let of = Arc::clone(&topic);
            on_thread(move || follow_rules(&table, &of).and_then(|()| follow_start(&table, start))).await?;
            *seen = Seen { config: Some(config), start: Some(start) };
        }
        let at = live.at().ok_or(Ended::Over)?;
        if at >= bounds.last_stable_offset {
            return Ok(());
        }
        step(node, live, &topic, at, bounds.last_stable_offset).await?;
    }
}

/// Works on a table, for which others may hold its lock. An event loop must not wait for that.
async fn on_thread(work: impl FnOnce() -> Result<(), Ended> + Send + 'static) -> Result<(), Ended> {
    task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a bug in the server: following a stream panicked");
        Err(failed(StreamFailure::Unreadable("a bug in the server: following it panicked".to_owned())))
    })
}

/// Takes over changed settings.
fn follow_rules(live: &LiveStream, topic: &Topic) -> Result<(), Ended> {
    let mut slot = live.table.write();
    let table = slot.as_mut().ok_or(Ended::Over)?;
    if table.rules.are_of(topic) {
        return Ok(());
    }
    let rules = Rules::of(topic).map_err(failed)?;
    if !table.rules.keeps_subjects(&rules) {
        return Err(Ended::Over);
    }
    let Table { contents, removals, .. } = table;
    contents.set_limits(rules.limits(), &mut |seq| removals.note(seq));
    table.rules = rules;
    Ok(())
}

/// Forgets what is before the start of the log.
fn follow_start(live: &LiveStream, start: Offset) -> Result<(), Ended> {
    let at = live.at().ok_or(Ended::Over)?;
    let first = start.get().unsigned_abs() + 1;
    let mut slot = live.table.write();
    let table = slot.as_mut().ok_or(Ended::Over)?;
    let Table { contents, removals, .. } = table;
    contents.purge(Purge { below: Some(first), ..Purge::default() }, &mut |seq| removals.note(seq));
    drop(slot);
    if at < start {
        live.reached(start);
    }
    Ok(())
}

/// Applies one slice.
async fn step(
    node: &Arc<Node>,
    live: &Arc<LiveStream>,
    topic: &Arc<Topic>,
    at: Offset,
    end: Offset,
) -> Result<(), Ended> {
    let terms = ReadTerms { upto: Some(end), ..ReadTerms::new(at, Isolation::TxnCommitted, SLICE_BYTES) };
    let (slice, aborted) = match live.handle.read_on_loop(Caller::internal(), &terms).await {
        Ok(ReadOutcome { slice: Some(slice), aborted, .. }) => (slice, aborted),
        // Less than a whole batch is left.
        Ok(_) => return apply_nothing(live, end).await,
        // The log start has moved.
        Err(ReadFailure::OutOfRange) => return Ok(()),
        Err(ReadFailure::BeingExchanged) => {
            time::sleep(AGAIN).await;
            return Ok(());
        }
        Err(ReadFailure::Damaged(range)) if node.topics().has_lost(&live.handle, &range) => {
            tracing::warn!(partition = %live.handle.id, "a stream has a hole, because it is damaged: {range}");
            return apply_nothing(live, range.end_offset.min(end).max(at.plus(1))).await;
        }
        Err(failure) => return Err(failed(StreamFailure::Unreadable(failure.to_string()))),
    };
    let next = slice.next_offset.min(end);
    let translator = node.streams.translator.clone().ok_or(Ended::Over)?;
    let (live, topic, bound) = (Arc::clone(live), Arc::clone(topic), Bound::of(node));
    let (now, id_key) = (node.now(), node.streams.id_key);
    let apply = move || {
        let bytes = slice.read().map_err(|error| StreamFailure::Unreadable(error.to_string()))?;
        let applying =
            Applying { live: &live, topic: &topic, translator: &*translator, bound, from: at, now, id_key };
        applying.slice(&bytes, &aborted)?;
        applying.apply(&mut Pieces::default(), Some(next))?;
        live.reached(next);
        Ok(())
    };
    on_thread(move || apply().map_err(failed)).await
}

/// Takes it that there are no messages before `upto`.
async fn apply_nothing(live: &Arc<LiveStream>, upto: Offset) -> Result<(), Ended> {
    let live = Arc::clone(live);
    let work = move || {
        live.table.write().as_mut().ok_or(Ended::Over)?.contents.reach(upto.get().unsigned_abs());
        live.reached(upto);
        Ok(())
    };
    on_thread(work).await
}

/// Reports whether consumers of committed records pass over the batch.
pub(super) fn is_hidden(header: &BatchHeader, aborted: &[AbortedTransaction]) -> bool {
    let is_aborted = |transaction: &AbortedTransaction| {
        transaction.producer_id == header.producer_id
            && (transaction.first_offset..=transaction.last_offset).contains(&header.base_offset)
    };
    header.attributes.is_control() || header.attributes.is_transactional() && aborted.iter().any(is_aborted)
}

/// Messages that wait to be applied.
#[derive(Default)]
struct Pieces {
    /// Their subjects, one after the other.
    subjects: Vec<u8>,
    messages: Vec<Piece>,
    /// The id of the last one.
    last_id: Vec<u8>,
}

struct Piece {
    seq: u64,
    subject_bytes: usize,
    headers_bytes: usize,
    payload_bytes: usize,
    time_ms: i64,
    rollup: Option<Rollup>,
    id: Option<IdHash>,
}

struct Applying<'a> {
    live: &'a LiveStream,
    topic: &'a Topic,
    translator: &'a dyn Translator,
    bound: Bound,
    from: Offset,
    now: TimestampMs,
    id_key: IdKey,
}

impl Applying<'_> {
    fn slice(&self, bytes: &Bytes, aborted: &[AbortedTransaction]) -> Result<(), StreamFailure> {
        let unreadable = |error: tailrace_records::BatchError| StreamFailure::Unreadable(error.to_string());
        let (mut pieces, mut parts) = (Pieces::default(), MessageParts::default());
        for batch in split_batches(bytes) {
            let (header, batch) = batch.map_err(unreadable)?;
            if is_hidden(&header, aborted) || header.last_offset() < self.from {
                continue;
            }
            let decoded = DecodedBatch::new(batch, self.bound.decompressed).map_err(unreadable)?;
            for record in decoded.records() {
                let record = record.map_err(unreadable)?;
                if record.offset < self.from || !self.translator.message(self.topic, &record, &mut parts) {
                    continue;
                }
                if parts.subject.len() > SUBJECT_BYTES_MAX {
                    continue;
                }
                let payload_bytes = record.value.map_or(0, <[u8]>::len);
                pieces.push(&parts, record.offset, record.timestamp.0, payload_bytes, self.id_key);
                if pieces.messages.len() == STEP_MESSAGES {
                    self.apply(&mut pieces, None)?;
                }
            }
        }
        self.apply(&mut pieces, None)
    }

    /// Applies messages. `upto`: there are no others before it.
    fn apply(&self, pieces: &mut Pieces, upto: Option<Offset>) -> Result<(), StreamFailure> {
        let mut slot = self.live.table.write();
        let Some(table) = slot.as_mut() else { return Ok(()) };
        let mut subjects = &pieces.subjects[..];
        let forgotten = self.now.0.saturating_sub(table.rules.window_ms());
        table.ids.expire(forgotten);
        if !pieces.messages.is_empty() {
            table.last_id.clone_from(&pieces.last_id);
        }
        for piece in &pieces.messages {
            let (subject, rest) = subjects.split_at(piece.subject_bytes);
            subjects = rest;
            let &Piece { seq, headers_bytes, payload_bytes, time_ms, rollup, .. } = piece;
            let bytes = table.rules.size(subject.len(), headers_bytes, payload_bytes);
            // What only bears the header of a roll-up is none where roll-ups are not checked.
            let rollup = rollup.filter(|_| table.rules.config.is_some());
            let Table { contents, removals, .. } = &mut *table;
            let message = Message { seq, subject, bytes, time_ms, rollup };
            contents.append(&message, &mut |seq| removals.note(seq));
            if let Some(id) = piece.id.filter(|_| time_ms > forgotten) {
                table.ids.enter(id, seq, time_ms, self.bound.ids);
            }
        }
        // Counted, and bounded one by one.
        let _ = table.ids_charge.set(table.ids.len(), usize::MAX);
        pieces.subjects.clear();
        pieces.messages.clear();
        if let Some(upto) = upto {
            table.contents.reach(upto.get().unsigned_abs());
        }
        let summary = table.contents.summary();
        let Bound { messages, subjects, memory, .. } = self.bound;
        let too_large = |what: String| Err(StreamFailure::TooLarge(what));
        if summary.messages > messages {
            return too_large(format!("the stream has more than {messages} messages"));
        }
        if summary.subjects > subjects {
            return too_large(format!("the stream has more than {subjects} subjects"));
        }
        if !table.charge.set(table.contents.memory_bytes() + table.ids.memory_bytes(), memory) {
            return too_large(format!("the tables of streams would take more than {memory} bytes"));
        }
        Ok(())
    }
}

impl Pieces {
    fn push(
        &mut self,
        parts: &MessageParts,
        offset: Offset,
        time_ms: i64,
        payload_bytes: usize,
        id_key: IdKey,
    ) {
        let headers = PublishHeaders::parse(&parts.headers);
        self.last_id.clear();
        self.last_id.extend_from_slice(headers.msg_id);
        let rollup = match headers.stored_rollup() {
            Some(Asked::Subject) => Some(Rollup::Subject),
            Some(Asked::All) => Some(Rollup::All),
            None => None,
        };
        self.subjects.extend_from_slice(&parts.subject);
        self.messages.push(Piece {
            seq: offset.get().unsigned_abs() + 1,
            subject_bytes: parts.subject.len(),
            headers_bytes: parts.headers.len(),
            payload_bytes,
            time_ms,
            rollup,
            id: id_key.hash(headers.msg_id),
        });
    }
}
