//! Fetch (1): returns the requested batches, at once or when enough have arrived.
//!
//! A lookup takes no lock: the log's index maps offsets to positions, and no batch is decoded. The records in
//! an answer are slices of segment files, which the outbox sends with sendfile.

use std::sync::Arc;
use tailrace_env::time::{Duration, Instant, sleep_until};
use tailrace_env::{select, task};

use bytes::Bytes;
use tailrace_config::ReplicaSelector;
use tailrace_env::aside::Turn;
use tailrace_env::sync::Notify;
use tailrace_identity::acl::{AUDIT_TOPIC, Operation};
use tailrace_kafka_wire::messages::fetch_request::FetchRequest;
use tailrace_kafka_wire::messages::fetch_response::{
    AbortedTransaction as WireAbortedTransaction, EpochEndOffset, FetchResponse, FetchableTopicResponse,
    PartitionData,
};
use tailrace_kafka_wire::{ApiKey, ErrorCode, Reader, Records};
use tailrace_log::{Extent, Reach};
use tailrace_replication::AbortedTransaction;
use tailrace_types::{NodeId, Offset};

use crate::closed::Closed;
use crate::context::{Context, Decided, carry_on_aside, decode};
use crate::errors::{claimed_epoch, read_code};
use crate::fetch_session::{Admission, FetchTurn, PartitionWanted, TopicKey};
use crate::lookup::replica;
use crate::outbox::ReplyPart;
use crate::partition_read::PartitionRead;
use crate::rights::ApiRights;
use crate::session::counted;
use crate::{closest_replica, leader_hints};
use tailrace_node::Caller;
use tailrace_node::Node;
use tailrace_node::NodeDisk;
use tailrace_node::access::Delivery;
use tailrace_node::partitions::{Isolation, PartitionHandle, ReadFailure, ReadTerms, TopicTable};

/// `isolation_level` of a consumer that must not see undecided transactions.
pub(crate) const READ_COMMITTED: i8 = 1;

/// First version whose answer may report where logs diverge. With CORRUPT_MESSAGE and no epoch, a combination
/// no client reads, that field holds the end of the damaged range, and tailrace's own clients continue there.
const VERSION_WITH_ENDS: i16 = 12;

/// Most partitions of a fetch that is decided on the event loop. A larger fetch, including the partitions its
/// session remembers, is decided aside.
const WANTED_ON_LOOP: usize = 512;

/// The same limit when up to a MiB of each partition is checked.
const WANTED_ON_LOOP_WHEN_CHECKED: usize = 1;

/// Partitions that a fetch processes before it checks whether other tasks need a turn.
const PARTITIONS_IN_A_ROW: usize = 64;

/// Longest wait of a fetch, whatever it asks for, because its connection must notice that the server stops.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Shortest interval between two looks of a fetch that waits for `MinBytes`. Each append to one of its
/// partitions wakes it, and a look goes through all of them.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(2);

/// Limits and conditions of one fetch.
struct Terms {
    bytes_max: u64,
    bytes_min: u64,
    committed_only: bool,
    /// Consumers may read from followers (KIP-392).
    from_followers: bool,
    /// On an event loop, memory only.
    reach: Reach,
    /// The client, with the deadline of the fetch.
    caller: Caller,
}

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: FetchRequest = decode(&context, reader)?;
    let node = context.node();
    let bytes_max =
        u64::from(request.max_bytes.max(0).unsigned_abs()).min(node.config().fetch_max_bytes.into());
    let within_quota = node.fetch_bytes_max(context.caller(), context.client_id());
    let bytes_max = within_quota.map_or(bytes_max, |most| most.min(bytes_max));
    let terms = Terms {
        bytes_max,
        bytes_min: u64::from(request.min_bytes.max(0).unsigned_abs()).min(bytes_max),
        committed_only: request.isolation_level == READ_COMMITTED,
        from_followers: node.config().replica_selector_class == ReplicaSelector::RackAware,
        reach: Reach::Memory,
        caller: context.caller().within(wait_time(request.max_wait_ms)),
    };
    let rack = Some(request.rack_id.clone()).filter(|rack| terms.from_followers && !rack.is_empty());
    let turn = match context.server.fetch_sessions.admit(request, context.version()) {
        Admission::Turn(turn) => turn,
        Admission::Refused(code) => {
            let response = FetchResponse { error_code: code.code(), ..Default::default() };
            return Ok(Decided::Reply(context.reply(response)?));
        }
    };
    let wanted_max = match node.config().tailrace_read_verify_after_ms {
        ..0 => WANTED_ON_LOOP,
        // The records are checked as they are read.
        0.. => WANTED_ON_LOOP_WHEN_CHECKED,
    };
    if turn.wanted.len() <= wanted_max
        && let Some(found) = look(context.node(), &turn.wanted, &terms).await
    {
        return decide_found(context, turn, found, terms, rack).await;
    }
    let (server, session) = (Arc::clone(&context.server), Arc::clone(&context.session));
    let aside = async move {
        let terms = Terms { reach: Reach::Disk, ..terms };
        let found = look(context.node(), &turn.wanted, &terms).await.expect("the disk is allowed");
        decide_found(context, turn, found, terms, rack).await
    };
    carry_on_aside(server, session, aside).await
}

async fn decide_found(
    context: Context,
    turn: FetchTurn,
    mut found: Vec<PartitionRead>,
    terms: Terms,
    rack: Option<String>,
) -> Result<Decided, Closed> {
    if let Some(rack) = rack {
        redirect(&context, &rack, &turn.wanted, &mut found).await;
    }
    if is_enough(&found, &terms) {
        return Ok(Decided::Reply(respond(&context, turn, found, &terms)?));
    }
    Ok(Decided::Later(Box::pin(wait(context, turn, terms))))
}

/// Redirects the consumer to replicas that are closer to it than this one.
async fn redirect(context: &Context, rack: &str, wanted: &[PartitionWanted], found: &mut [PartitionRead]) {
    let preferred = closest_replica::preferred(context, rack, wanted).await;
    for (found, preferred) in found.iter_mut().zip(preferred) {
        if preferred.is_some() && !found.failed() && found.diverging.is_none() {
            found.preferred = preferred;
            found.slice = None;
            found.aborted = Vec::new();
        }
    }
}

fn wait_time(max_wait_ms: i32) -> Duration {
    Duration::from_millis(max_wait_ms.max(0).unsigned_abs().into()).min(WAIT_MAX)
}

/// Waits until there is enough, or the time is up. Continues aside once something has to be read from the
/// disk.
async fn wait(context: Context, turn: FetchTurn, terms: Terms) -> Result<Vec<ReplyPart>, Closed> {
    if let Some(found) = wait_for_enough(&context, &turn, &terms).await {
        return respond(&context, turn, found, &terms);
    }
    let (server, session) = (Arc::clone(&context.server), Arc::clone(&context.session));
    let aside = async move {
        let terms = Terms { reach: Reach::Disk, ..terms };
        let found = wait_for_enough(&context, &turn, &terms).await.expect("the disk is allowed");
        respond(&context, turn, found, &terms)
    };
    server.aside.run(counted(session, aside)).await
}

/// Returns what was found. `None` if some of it has to be read from the disk.
async fn wait_for_enough(context: &Context, turn: &FetchTurn, terms: &Terms) -> Option<Vec<PartitionRead>> {
    let notify = Arc::new(Notify::new());
    let mut stopping = context.node().stopping();
    loop {
        let next_look = Instant::now() + LOOK_INTERVAL_MIN;
        register(context.node(), &turn.wanted, &notify).await;
        let found = look(context.node(), &turn.wanted, terms).await?;
        if is_enough(&found, terms) || terms.caller.is_late() || *stopping.borrow() {
            return Some(found);
        }
        // Releases the files of slices that are not sent.
        drop(found);
        select! {
            () = notify.notified() => {}
            () = terms.caller.gives_up() => {}
            _ = stopping.changed() => {}
        }
        // If a watermark moves during each look, the select above never yields.
        task::yield_now().await;
        if terms.bytes_min > 1 {
            // The fetch looks once more even if its deadline has passed.
            let _ = terms.caller.wait(sleep_until(next_look)).await;
        }
    }
}

async fn register(node: &Node, wanted: &[PartitionWanted], notify: &Arc<Notify>) {
    let mut turn = Turn::begin();
    for few in wanted.chunks(PARTITIONS_IN_A_ROW) {
        turn.rest().await;
        let topics = node.topics();
        for handle in few.iter().filter_map(|want| find(&topics, want).ok()) {
            handle.register_fetch(notify);
        }
    }
}

fn is_enough(found: &[PartitionRead], terms: &Terms) -> bool {
    let is_told =
        |found: &PartitionRead| found.failed() || found.diverging.is_some() || found.preferred.is_some();
    let failed = found.iter().any(is_told);
    // There is more than this answer can take. It ends at a segment's end or at its limits, so waiting gains
    // nothing.
    let is_cut = found.iter().any(|found| found.has_more);
    found.is_empty()
        || failed
        || is_cut
        || found.iter().map(PartitionRead::bytes).sum::<u64>() >= terms.bytes_min
}

/// Looks at all wanted partitions. `None` if something has to be read from the disk.
async fn look(node: &Node, wanted: &[PartitionWanted], terms: &Terms) -> Option<Vec<PartitionRead>> {
    let mut look = Look { left: terms.bytes_max, nothing_yet: true, found: Vec::with_capacity(wanted.len()) };
    let mut turn = Turn::begin();
    for few in wanted.chunks(PARTITIONS_IN_A_ROW) {
        turn.rest().await;
        look.go_on(node, few, terms)?;
    }
    Some(look.found)
}

/// A look at many partitions, one after the other.
struct Look {
    /// Bytes that may still be added.
    left: u64,
    nothing_yet: bool,
    found: Vec<PartitionRead>,
}

impl Look {
    fn go_on(&mut self, node: &Node, wanted: &[PartitionWanted], terms: &Terms) -> Option<()> {
        let topics = node.topics();
        // Asked again at each look, so that nothing is sent to a client whose right was taken away meanwhile.
        let rights = ApiRights::of(node, &terms.caller, ApiKey::Fetch);
        let mut last: Option<(&TopicKey, Result<(), ErrorCode>)> = None;
        for want in wanted {
            let may_read = match last {
                Some((topic, may_read)) if *topic == want.topic => may_read,
                _ => may_read(&topics, &rights, &want.topic),
            };
            last = Some((&want.topic, may_read));
            let found =
                match may_read.and_then(|()| find(&topics, want)).and_then(|handle| open(&rights, handle)) {
                    Ok(handle) => look_at(&topics, &handle, want, self.left, self.nothing_yet, terms)?,
                    Err(code) => PartitionRead::error(code),
                };
            self.left = self.left.saturating_sub(found.bytes());
            self.nothing_yet &= found.slice.is_none();
            self.found.push(found);
        }
        Some(())
    }
}

/// Refuses topics that the client may not read. An unknown id is left to [`find`], because ids are no
/// secrets.
fn may_read(topics: &TopicTable, rights: &ApiRights<'_>, topic: &TopicKey) -> Result<(), ErrorCode> {
    match topic {
        _ if rights.is_unlimited() => Ok(()),
        TopicKey::Name(name) => rights.topic(Operation::Read, name),
        TopicKey::Id(id) => {
            topics.by_id(*id).map_or(Ok(()), |topic| rights.topic(Operation::Read, topic.name.as_str()))
        }
    }
}

/// Refuses the audit log, which is closed also where there are no rules.
fn open(rights: &ApiRights<'_>, handle: Arc<PartitionHandle>) -> Result<Arc<PartitionHandle>, ErrorCode> {
    if rights.is_unlimited() && handle.id.topic.as_str() == AUDIT_TOPIC {
        rights.topic(Operation::Read, AUDIT_TOPIC)?;
    }
    Ok(handle)
}

fn find(topics: &TopicTable, want: &PartitionWanted) -> Result<Arc<PartitionHandle>, ErrorCode> {
    let topic = match &want.topic {
        TopicKey::Name(name) => topics.by_name(name).ok_or(ErrorCode::UnknownTopicOrPartition)?,
        TopicKey::Id(id) => topics.by_id(*id).ok_or(ErrorCode::UnknownTopicId)?,
    };
    replica(&topic, want.partition)
}

/// Looks at one partition, for at most `left` bytes. With `at_least_one`, nothing was found before, and the
/// first batch is sent even beyond the limits (KIP-74). `None` if the records have to be read from the disk.
fn look_at(
    topics: &TopicTable,
    handle: &PartitionHandle,
    want: &PartitionWanted,
    left: u64,
    at_least_one: bool,
    terms: &Terms,
) -> Option<PartitionRead> {
    let (from, isolation) = (Offset(want.fetch_offset), Isolation::of(terms.committed_only));
    let read = ReadTerms {
        at_least_one,
        claimed_epoch: claimed_epoch(want.current_epoch),
        last_fetched_epoch: claimed_epoch(want.last_fetched_epoch),
        from_followers: terms.from_followers,
        reach: terms.reach,
        ..ReadTerms::new(from, isolation, left.min(want.bytes_max))
    };
    match handle.read(&terms.caller, &read) {
        Ok(outcome) => Some(PartitionRead::read(outcome)),
        Err(ReadFailure::NotAtHand) => None,
        Err(failure) => Some(unread(topics, handle, &read, &failure)),
    }
}

/// Returns the answer for a failed read. Clients silently retry on KAFKA_STORAGE_ERROR, which is right as
/// long as another replica may have the records. They report CORRUPT_MESSAGE to the application, which can
/// continue after the damage.
fn unread(
    topics: &TopicTable,
    handle: &PartitionHandle,
    terms: &ReadTerms,
    failure: &ReadFailure,
) -> PartitionRead {
    match failure {
        ReadFailure::Damaged(range) if topics.has_lost(handle, range) => {
            let damaged_end = Some(range.end_offset.min(handle.bounds().end(terms.isolation)));
            PartitionRead { damaged_end, ..PartitionRead::error(ErrorCode::CorruptMessage) }
        }
        failure => PartitionRead::error(read_code(failure)),
    }
}

/// Builds the answer. Leaves out what an incremental session has already reported. The answer of a client
/// that violates its quota is empty.
fn respond(
    context: &Context,
    turn: FetchTurn,
    found: Vec<PartitionRead>,
    terms: &Terms,
) -> Result<Vec<ReplyPart>, Closed> {
    // A client beyond its quota of time gets nothing either, as in Kafka, and no bytes are counted.
    let delivery = match context.charge_work() {
        0 => context.node().fetched(context.caller(), context.client_id(), turn.answer_bytes(&found)),
        throttle_ms => Delivery::Withhold { throttle_ms },
    };
    match delivery {
        Delivery::Send { throttle_ms } => context.throttle(throttle_ms),
        Delivery::Withhold { throttle_ms } => {
            context.throttle(throttle_ms);
            let session_id = context.server.fetch_sessions.withhold(&turn);
            let throttle_time_ms = context.throttle_time_ms();
            return context.reply(FetchResponse { throttle_time_ms, session_id, ..Default::default() });
        }
    }
    let named = turn.select(&found);
    let mut files = Vec::new();
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    for ((want, found), named) in turn.wanted.iter().zip(found).zip(named) {
        if !named {
            continue;
        }
        let damaged_end = found.damaged_end.filter(|_| context.version() >= VERSION_WITH_ENDS);
        let mut data = partition_data(want, found, terms, &mut files);
        if let Some(end) = damaged_end {
            data.diverging_epoch.end_offset = end.get();
        }
        match responses.last_mut() {
            Some(last) if want.topic.is(&last.topic, last.topic_id) => last.partitions.push(data),
            _ => {
                let (topic, topic_id) = want.topic.fields();
                responses.push(FetchableTopicResponse {
                    topic,
                    topic_id,
                    partitions: vec![data],
                    ..Default::default()
                });
            }
        }
    }
    let (session_id, throttle_time_ms) = (turn.session_id, context.throttle_time_ms());
    let mut response = FetchResponse { session_id, throttle_time_ms, responses, ..Default::default() };
    leader_hints::in_fetch(context, &mut response);
    context.reply_with_files(response, &files)
}

fn partition_data(
    want: &PartitionWanted,
    found: PartitionRead,
    terms: &Terms,
    files: &mut Vec<Extent<NodeDisk>>,
) -> PartitionData {
    let mut data = PartitionData {
        partition_index: want.partition,
        error_code: found.error.code(),
        high_watermark: found.mark(|bounds| bounds.high_watermark),
        last_stable_offset: found.mark(|bounds| bounds.last_stable_offset),
        log_start_offset: found.mark(|bounds| bounds.log_start),
        aborted_transactions: terms.committed_only.then(|| found.aborted.iter().map(aborted).collect()),
        preferred_read_replica: found.preferred.map_or(-1, NodeId::get),
        // librdkafka treats a null field as an error.
        records: Records::Bytes(Bytes::new()),
        ..Default::default()
    };
    if let Some((epoch, end)) = found.diverging {
        data.diverging_epoch =
            EpochEndOffset { epoch: epoch.get(), end_offset: end.get(), ..Default::default() };
    }
    if let Some(slice) = found.slice {
        let tag = u32::try_from(files.len()).expect("a request names fewer partitions");
        data.records = Records::External { bytes: slice.bytes(), tag };
        files.push(slice.extent);
    }
    data
}

fn aborted(transaction: &AbortedTransaction) -> WireAbortedTransaction {
    WireAbortedTransaction {
        producer_id: transaction.producer_id.get(),
        first_offset: transaction.first_offset.get(),
        ..Default::default()
    }
}
