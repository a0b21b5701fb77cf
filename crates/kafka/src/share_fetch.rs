//! ShareFetch (78): a member of a share group acquires records for a while (KIP-932), and acknowledges
//! earlier ones in the same request.
//!
//! Sessions and acknowledgements are decided in the order of the connection's requests. Records are acquired
//! when there are `MinBytes` of them, or when the client's time is up. Until then others may acquire them,
//! and a client that disconnects while it waits acquires none. As in a fetch, the records in the answer are
//! slices of segment files. A client that violates its quota acquires nothing. The answer lists which of them
//! are acquired. The client has to ignore the others.

use std::collections::HashMap;
use std::sync::Arc;
use tailrace_env::time::{Duration, Instant, sleep_until};
use tailrace_env::{aside, select, task};

use bytes::Bytes;
use tailrace_coordination::groups::TopicReference;
use tailrace_coordination::share::{AcquireMode, AcquireTerms};
use tailrace_env::sync::Notify;
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::share_fetch_request::ShareFetchRequest;
use tailrace_kafka_wire::messages::share_fetch_response::{
    AcquiredRecords, LeaderIdAndEpoch, PartitionData, ShareFetchResponse, ShareFetchableTopicResponse,
};
use tailrace_kafka_wire::{ErrorCode, Reader, Records};

use crate::closed::Closed;
use crate::context::{Context, Decided, decode};
use crate::errors::{session_code, share_code};
use crate::groups::check_topic;
use crate::leader_hints;
use crate::outbox::ReplyPart;
use crate::share_acknowledgements::{Acknowledging, Member, Outcome, Said, partition_of};
use tailrace_log::Extent;
use tailrace_node::Caller;
use tailrace_node::NodeDisk;
use tailrace_node::share::sessions::{FINAL_EPOCH, INITIAL_EPOCH, Partition, SessionRequest};
use tailrace_node::share::{Acquisition, LivePartition, acquirable_bytes, acquire};

/// `share_acquire_mode` of a client that must never get more records than it asks for (KIP-1206).
const RECORD_LIMIT: i8 = 1;

/// Longest wait of a fetch, whatever it asks for, because its connection must notice that the server stops.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Shortest interval between two looks of a fetch that waits for `MinBytes`, as in `fetch`.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(2);

/// One request on its way through the server.
struct Turn {
    member: Member,
    acknowledging: Acknowledging,
    /// The partitions to fetch from, in this order. Empty if the client only acknowledges.
    partitions: Vec<Partition>,
    /// The request starts a session, whose first answer contains all partitions, as in Kafka.
    begins: bool,
    terms: AcquireTerms,
    bytes_max: u64,
    /// The number of bytes to wait for, at most `bytes_max`.
    bytes_min: u64,
    /// The client, with the deadline of the fetch.
    caller: Caller,
}

/// The result of a look at one partition.
type Acquired = (Partition, Result<Acquisition, ErrorCode>);

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: ShareFetchRequest = decode(&context, reader)?;
    match begin(&context, request) {
        Ok(turn) => Ok(Decided::Later(Box::pin(finish(context, turn)))),
        Err(code) => {
            let response = ShareFetchResponse { error_code: code.code(), ..Default::default() };
            Ok(Decided::Reply(context.reply(response)?))
        }
    }
}

fn begin(context: &Context, request: ShareFetchRequest) -> Result<Turn, ErrorCode> {
    let node = context.node();
    let member = Member::of(context, request.group_id.as_deref(), request.member_id.as_deref())?;
    let epoch = request.share_session_epoch;
    let only_renews = request.is_renew_ack;
    let limits = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms);
    if only_renews && limits != (0, 0, 0, 0) {
        return Err(ErrorCode::InvalidRequest);
    }
    let terms = AcquireTerms {
        member: Arc::clone(&member.id),
        records_max: request.max_records.max(0).unsigned_abs().into(),
        batch_size: request.batch_size.max(1).unsigned_abs().into(),
        mode: match request.share_acquire_mode {
            RECORD_LIMIT => AcquireMode::RecordLimit,
            _ => AcquireMode::BatchOptimized,
        },
    };
    let bytes_max =
        u64::from(request.max_bytes.max(0).unsigned_abs()).min(node.config().fetch_max_bytes.into());
    let within_quota = node.fetch_bytes_max(context.caller(), context.client_id());
    let bytes_max = within_quota.map_or(bytes_max, |most| most.min(bytes_max));
    let bytes_min = u64::from(request.min_bytes.max(0).unsigned_abs()).min(bytes_max);
    let wait = Duration::from_millis(request.max_wait_ms.max(0).unsigned_abs().into()).min(WAIT_MAX);
    let (named, said, forgotten) = named_in(request);
    if epoch == INITIAL_EPOCH && !said.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    context.session.uses_share_sessions();
    let connection = context.session.id;
    let sessions = &node.share_groups().sessions;
    let mut partitions = Vec::new();
    if epoch == FINAL_EPOCH {
        sessions.acknowledge(&member.group, &member.id, epoch, connection).map_err(session_code)?;
    } else {
        let (group, member) = (&member.group, &member.id);
        let request = SessionRequest { group, member, epoch, connection, added: named, forgotten };
        let sessions_max = node.config().group_share_max_share_sessions;
        partitions = sessions.fetch(request, sessions_max).map_err(session_code)?;
    }
    let acknowledging = Acknowledging::begin(context, &member, said, only_renews);
    if epoch == FINAL_EPOCH {
        node.share_groups().member_left(node, context.caller(), &member.group, &member.id);
    }
    if only_renews || terms.records_max == 0 || bytes_max == 0 {
        partitions.clear();
    }
    let caller = context.caller().within(wait);
    let begins = epoch == INITIAL_EPOCH;
    Ok(Turn { member, acknowledging, partitions, begins, terms, bytes_max, bytes_min, caller })
}

/// Returns the partitions of a request, its acknowledgements, and the partitions it wants forgotten.
#[expect(clippy::type_complexity, reason = "three lists of one request, taken apart at once")]
fn named_in(request: ShareFetchRequest) -> (Vec<Partition>, Vec<(Partition, Vec<Said>)>, Vec<Partition>) {
    let (mut named, mut said) = (Vec::new(), Vec::new());
    for topic in request.topics {
        for partition in topic.partitions {
            let name = partition_of(topic.topic_id, partition.partition_index);
            named.push(name);
            if !partition.acknowledgement_batches.is_empty() {
                let batches = partition.acknowledgement_batches.into_iter();
                let batches = batches.map(|batch| Said {
                    first: batch.first_offset,
                    last: batch.last_offset,
                    codes: batch.acknowledge_types,
                });
                said.push((name, batches.collect()));
            }
        }
    }
    let topics = request.forgotten_topics_data.into_iter();
    let forgotten = topics
        .flat_map(|topic| topic.partitions.into_iter().map(move |index| partition_of(topic.topic_id, index)));
    (named, said, forgotten.collect())
}

async fn finish(context: Context, turn: Turn) -> Result<Vec<ReplyPart>, Closed> {
    let found = wait(&context, &turn).await;
    count(&context, &found);
    let outcomes = turn.acknowledging.outcomes().await;
    let mut files = Vec::new();
    let mut topics = Topics::default();
    for (partition, found) in found {
        fill(topics.partition(partition), found, &mut files);
    }
    for &partition in turn.partitions.iter().filter(|_| turn.begins) {
        topics.partition(partition);
    }
    for (partition, Outcome { code, message }) in outcomes {
        let data = topics.partition(partition);
        data.acknowledge_error_code = code.code();
        data.acknowledge_error_message = message;
    }
    let mut response = ShareFetchResponse {
        throttle_time_ms: context.throttle_time_ms(),
        acquisition_lock_timeout_ms: turn.member.settings.lock_duration_ms(),
        responses: topics.responses,
        ..Default::default()
    };
    leader_hints::in_share_fetch(&context, &mut response);
    context.reply_with_files(response, &files)
}

/// Counts the records of an answer for the client's quota. They belong to the client already, so they are
/// sent even if they violate it.
fn count(context: &Context, found: &[Acquired]) {
    let acquired = found.iter().filter_map(|(_, found)| found.as_ref().ok());
    let bytes: u64 = acquired.map(|acquisition| acquisition.extent.bytes()).sum();
    if bytes > 0 {
        context.throttle(context.node().delivered(context.caller(), context.client_id(), bytes));
    }
}

/// Waits until there is enough, or the time is up. Returns nothing at once if the client violates its quota.
async fn wait(context: &Context, turn: &Turn) -> Vec<Acquired> {
    if turn.partitions.is_empty() {
        return Vec::new();
    }
    let notify = Arc::new(Notify::new());
    let mut stopping = context.node().stopping();
    loop {
        let next_look = Instant::now() + LOOK_INTERVAL_MIN;
        let is_last = turn.bytes_min == 0 || turn.caller.is_late() || *stopping.borrow();
        // Each look registers first, so that it misses no later change.
        if is_last || is_enough(context, turn, &notify).await {
            let throttle_ms = context.node().fetch_throttle_ms(context.caller(), context.client_id());
            if throttle_ms > 0 {
                context.throttle(throttle_ms);
                return Vec::new();
            }
            let found = look(context, turn, &notify).await;
            if !found.is_empty() || is_last {
                return found;
            }
        }
        select! {
            () = notify.notified() => {}
            () = turn.caller.gives_up() => {}
            _ = stopping.changed() => {}
        }
        // If something changes during each look, the select above never yields.
        task::yield_now().await;
        if turn.bytes_min > 1 {
            // The fetch looks once more even if its deadline has passed.
            let _ = turn.caller.wait(sleep_until(next_look)).await;
        }
    }
}

async fn find(
    context: &Context,
    turn: &Turn,
    partition: Partition,
    notify: &Arc<Notify>,
) -> Result<Arc<LivePartition>, ErrorCode> {
    let node = context.node();
    let (topic, number) = partition;
    // Asked again at each look, so that nothing is acquired for a client whose right was taken away
    // meanwhile.
    check_topic(context, &context.rights(), Operation::Read, &TopicReference::Id(topic))?;
    // The fetch looks once more even if its deadline has passed, and loads what it needs for that.
    let key = turn.member.key(topic, number);
    let live = node.share_groups().get_or_load(node, context.caller(), &key).await;
    let live = live.map_err(|failure| share_code(&failure))?;
    live.register_fetch(notify);
    Ok(live)
}

/// Reports whether acquiring is worthwhile: there are as many bytes as the client waits for, or there is an
/// error to report. Other members may still be faster.
async fn is_enough(context: &Context, turn: &Turn, notify: &Arc<Notify>) -> bool {
    // Acquiring finds out on its own whether there is anything.
    if turn.bytes_min <= 1 {
        return true;
    }
    let mut missing = turn.bytes_min;
    let mut pace = aside::Turn::begin();
    for &partition in &turn.partitions {
        pace.rest().await;
        let Ok(live) = find(context, turn, partition, notify).await else { return true };
        match acquirable_bytes(&turn.caller, &live, &turn.member.settings, missing) {
            Ok(bytes) => missing = missing.saturating_sub(bytes),
            Err(_) => return true,
        }
        if missing == 0 {
            return true;
        }
    }
    false
}

async fn look(context: &Context, turn: &Turn, notify: &Arc<Notify>) -> Vec<Acquired> {
    let node = context.node();
    let mut found = Vec::new();
    let mut terms = turn.terms.clone();
    let mut bytes_left = turn.bytes_max;
    let mut pace = aside::Turn::begin();
    for &partition in &turn.partitions {
        if terms.records_max == 0 || bytes_left == 0 {
            break;
        }
        pace.rest().await;
        let live = match find(context, turn, partition, notify).await {
            Ok(live) => live,
            Err(code) => {
                found.push((partition, Err(code)));
                continue;
            }
        };
        match acquire(node, &turn.caller, &live, &turn.member.settings, &terms, bytes_left).await {
            Ok(None) => {}
            Ok(Some(acquisition)) => {
                terms.records_max = terms.records_max.saturating_sub(acquisition.records());
                bytes_left = bytes_left.saturating_sub(acquisition.extent.bytes());
                found.push((partition, Ok(acquisition)));
            }
            Err(failure) => found.push((partition, Err(share_code(&failure)))),
        }
    }
    found
}

/// Answers by topic, in the order in which they are added.
#[derive(Default)]
struct Topics {
    responses: Vec<ShareFetchableTopicResponse>,
    places: HashMap<Partition, (usize, usize)>,
    topics: HashMap<[u8; 16], usize>,
}

impl Topics {
    fn partition(&mut self, partition: Partition) -> &mut PartitionData {
        let (topic, index) = (partition.0.0, partition.1);
        let number = *self.topics.entry(topic).or_insert_with(|| {
            self.responses.push(ShareFetchableTopicResponse { topic_id: topic, ..Default::default() });
            self.responses.len() - 1
        });
        let partitions = &mut self.responses[number].partitions;
        let place = self.places.entry(partition).or_insert_with(|| {
            partitions.push(PartitionData {
                partition_index: index,
                records: Records::Bytes(Bytes::new()),
                current_leader: LeaderIdAndEpoch { leader_id: -1, leader_epoch: -1, ..Default::default() },
                ..Default::default()
            });
            (number, partitions.len() - 1)
        });
        &mut partitions[place.1]
    }
}

fn fill(data: &mut PartitionData, found: Result<Acquisition, ErrorCode>, files: &mut Vec<Extent<NodeDisk>>) {
    let acquisition = match found {
        Ok(acquisition) => acquisition,
        Err(code) => {
            data.error_code = code.code();
            return;
        }
    };
    let tag = u32::try_from(files.len()).expect("a session has fewer partitions");
    let bytes = u32::try_from(acquisition.extent.bytes()).expect("a segment is shorter than 2 GiB");
    data.records = Records::External { bytes, tag };
    files.push(acquisition.extent);
    let acquired = acquisition.batches.into_iter().map(|batch| AcquiredRecords {
        first_offset: batch.first.get(),
        last_offset: batch.last.get(),
        delivery_count: batch.delivery_count,
        ..Default::default()
    });
    data.acquired_records = acquired.collect();
}
