//! Incremental fetch sessions (KIP-227), which remember what a client wants so that it need not repeat it.
//!
//! A session remembers partitions and what was last reported of each. An incremental request contains only
//! changes, and an incremental answer only partitions with news. Sessions are bounded in number and size. A
//! client without a session sends full fetches. As in Kafka, sessions are not bound to a connection.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tailrace_env::time::{Duration, Instant};

use parking_lot::Mutex;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::fetch_request::{FetchPartition, FetchRequest};
use tailrace_types::{Tally, i64_of};

use crate::metrics::KafkaMetrics;
use crate::partition_read::PartitionRead;

/// Most partitions of one session, and of one request. One costs about 300 bytes.
const SESSION_PARTITIONS_MAX: usize = 100_000;

/// Most partitions of all sessions together. This bounds their memory to about 150 MB. A client that would
/// exceed it gets no session.
const ALL_PARTITIONS_MAX: usize = 500_000;

/// Longest topic name that is remembered. No topic has a longer one, but a request may contain anything.
const NAME_BYTES_MAX: usize = 249;

/// Idle time after which a session may be replaced by another client's, as in Kafka.
const REPLACEABLE_AFTER: Duration = Duration::from_secs(120);

/// First version with topic ids.
const IDS_FROM: i16 = 13;

const FINAL_EPOCH: i32 = -1;
const INITIAL_EPOCH: i32 = 0;

/// A topic as the request names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TopicKey {
    Name(Arc<str>),
    Id([u8; 16]),
}

impl TopicKey {
    /// Returns the name and id fields of a response. Each version sends one of them.
    pub(crate) fn fields(&self) -> (String, [u8; 16]) {
        match self {
            Self::Name(name) => (name.to_string(), [0; 16]),
            Self::Id(id) => (String::new(), *id),
        }
    }

    fn is_short(&self) -> bool {
        match self {
            Self::Name(name) => name.len() <= NAME_BYTES_MAX,
            Self::Id(_) => true,
        }
    }

    pub(crate) fn is(&self, name: &str, id: [u8; 16]) -> bool {
        match self {
            Self::Name(own) => &**own == name,
            Self::Id(own) => *own == id,
        }
    }
}

/// One partition that a client wants to read.
#[derive(Clone, Debug)]
pub(crate) struct PartitionWanted {
    pub(crate) topic: TopicKey,
    pub(crate) partition: i32,
    pub(crate) fetch_offset: i64,
    pub(crate) bytes_max: u64,
    pub(crate) current_epoch: i32,
    pub(crate) last_fetched_epoch: i32,
}

impl PartitionWanted {
    fn new(topic: TopicKey, partition: &FetchPartition) -> Self {
        Self {
            topic,
            partition: partition.partition,
            fetch_offset: partition.fetch_offset,
            bytes_max: partition.partition_max_bytes.max(0).unsigned_abs().into(),
            current_epoch: partition.current_leader_epoch,
            last_fetched_epoch: partition.last_fetched_epoch,
        }
    }

    fn key(&self) -> Key {
        (self.topic.clone(), self.partition)
    }
}

type Key = (TopicKey, i32);

/// Length of the fields of a partition in an answer, apart from its records.
const PARTITION_BYTES: u64 = 40;

/// One request's share of a session, or a fetch without a session.
pub(crate) struct FetchTurn {
    /// The partitions to read, in the order in which limits are used up.
    pub(crate) wanted: Vec<PartitionWanted>,
    /// The session id for the answer. 0 without a session.
    pub(crate) session_id: i32,
    session: Option<Arc<Mutex<Session>>>,
    incremental: bool,
}

/// The decision on a fetch request.
pub(crate) enum Admission {
    Turn(FetchTurn),
    Refused(ErrorCode),
}

/// The last report about a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Said {
    high_watermark: i64,
    last_stable_offset: i64,
    log_start: i64,
}

#[derive(Debug)]
struct Remembered {
    wanted: PartitionWanted,
    said: Option<Said>,
}

#[derive(Debug)]
struct Session {
    next_epoch: i32,
    uses_ids: bool,
    partitions: HashMap<Key, Remembered>,
    /// Partitions that returned data go to the end, so that a small limit starves none.
    order: VecDeque<Key>,
    last_used: Instant,
    /// Number of partitions of all sessions together.
    all: Arc<Tally>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.all.take_off(self.partitions.len() as u64);
    }
}

/// All sessions of the server.
#[derive(Debug)]
pub struct FetchSessions {
    slots: usize,
    sessions: Mutex<HashMap<i32, Arc<Mutex<Session>>>>,
    /// Number of partitions that all sessions remember.
    all: Arc<Tally>,
    metrics: Arc<KafkaMetrics>,
}

impl FetchSessions {
    /// Creates a table of at most `slots` sessions.
    pub fn new(slots: usize, metrics: Arc<KafkaMetrics>) -> Self {
        Self {
            slots,
            sessions: Mutex::default(),
            all: Arc::new(Tally::of("partitions of fetch sessions")),
            metrics,
        }
    }

    /// Finds or creates the session of a request, and returns what the client wants to read now.
    pub(crate) fn admit(&self, request: FetchRequest, version: i16) -> Admission {
        let (id, epoch) = (request.session_id, request.session_epoch);
        let named = request.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>();
        if named > SESSION_PARTITIONS_MAX {
            return Admission::Refused(ErrorCode::InvalidRequest);
        }
        if epoch == FINAL_EPOCH || epoch == INITIAL_EPOCH {
            if id != 0 {
                self.remove(id);
            }
            let wanted = wanted(&request, version);
            return Admission::Turn(self.begin(wanted, version, epoch == INITIAL_EPOCH));
        }
        let session = self.sessions.lock().get(&id).cloned();
        let Some(session) = session.filter(|_| id != 0) else {
            return Admission::Refused(ErrorCode::FetchSessionIdNotFound);
        };
        let continued = session.lock().continue_with(&request, version);
        match continued {
            Ok(wanted) => Admission::Turn(FetchTurn {
                wanted,
                session_id: id,
                session: Some(session),
                incremental: true,
            }),
            Err(code) => {
                if code == ErrorCode::FetchSessionIdNotFound {
                    self.remove(id);
                }
                Admission::Refused(code)
            }
        }
    }

    fn begin(&self, wanted: Vec<PartitionWanted>, version: i16, with_session: bool) -> FetchTurn {
        let session = if with_session { self.make(&wanted, version) } else { None };
        let (session_id, session) = session.map_or((0, None), |(id, session)| (id, Some(session)));
        FetchTurn { wanted, session_id, session, incremental: false }
    }

    fn make(&self, wanted: &[PartitionWanted], version: i16) -> Option<(i32, Arc<Mutex<Session>>)> {
        let all = self.all.size() + wanted.len();
        if wanted.is_empty() || wanted.len() > SESSION_PARTITIONS_MAX || all > ALL_PARTITIONS_MAX {
            return None;
        }
        if !wanted.iter().all(|want| want.topic.is_short()) {
            return None;
        }
        let mut sessions = self.sessions.lock();
        if sessions.len() >= self.slots {
            let idle = sessions.iter().map(|(id, session)| (session.lock().last_used, *id)).min();
            let (_, oldest) = idle.filter(|(used, _)| used.elapsed() >= REPLACEABLE_AFTER)?;
            sessions.remove(&oldest);
        }
        let id = unused_id(&sessions)?;
        let session = Arc::new(Mutex::new(Session::new(wanted, version >= IDS_FROM, &self.all)));
        sessions.insert(id, Arc::clone(&session));
        self.count(&sessions);
        Some((id, session))
    }

    /// Ends a turn whose answer is withheld because of a quota, and returns the session id of the empty
    /// answer. An existing session stays as it was. Clients drop the one that such an answer begins, so it is
    /// removed.
    pub(crate) fn withhold(&self, turn: &FetchTurn) -> i32 {
        if turn.incremental {
            return turn.session_id;
        }
        if turn.session_id != 0 {
            self.remove(turn.session_id);
        }
        0
    }

    fn remove(&self, id: i32) {
        let mut sessions = self.sessions.lock();
        sessions.remove(&id);
        self.count(&sessions);
    }

    fn count(&self, sessions: &HashMap<i32, Arc<Mutex<Session>>>) {
        self.metrics.fetch_sessions.set(i64_of(sessions.len()));
    }
}

/// Returns a random id, so that a client of an earlier process does not hit another client's session.
fn unused_id(sessions: &HashMap<i32, Arc<Mutex<Session>>>) -> Option<i32> {
    for _ in 0..16 {
        let id = (tailrace_env::random::u64() >> 33) as i32;
        if id != 0 && !sessions.contains_key(&id) {
            return Some(id);
        }
    }
    None
}

impl Session {
    fn new(wanted: &[PartitionWanted], uses_ids: bool, all: &Arc<Tally>) -> Self {
        let mut session = Self {
            next_epoch: 1,
            uses_ids,
            partitions: HashMap::with_capacity(wanted.len()),
            order: VecDeque::with_capacity(wanted.len()),
            last_used: Instant::now(),
            all: Arc::clone(all),
        };
        wanted.iter().for_each(|want| session.want(want.clone()));
        session
    }

    fn want(&mut self, wanted: PartitionWanted) {
        let key = wanted.key();
        match self.partitions.get_mut(&key) {
            Some(remembered) => remembered.wanted = wanted,
            None => {
                self.order.push_back(key.clone());
                self.partitions.insert(key, Remembered { wanted, said: None });
                self.all.add(1);
            }
        }
    }

    fn continue_with(
        &mut self,
        request: &FetchRequest,
        version: i16,
    ) -> Result<Vec<PartitionWanted>, ErrorCode> {
        if request.session_epoch != self.next_epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if self.uses_ids != (version >= IDS_FROM) {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        let added = wanted(request, version);
        // Partitions that are known already count twice here. A client this close to the limit has to start a
        // new session.
        let count = |held: usize| if added.is_empty() { 0 } else { held + added.len() };
        let is_too_large = count(self.partitions.len()) > SESSION_PARTITIONS_MAX
            || count(self.all.size()) > ALL_PARTITIONS_MAX;
        if is_too_large || !added.iter().all(|want| want.topic.is_short()) {
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        added.into_iter().for_each(|want| self.want(want));
        let mut forgotten = false;
        for topic in &request.forgotten_topics_data {
            let key = topic_key(&topic.topic, topic.topic_id, version);
            for &partition in &topic.partitions {
                if self.partitions.remove(&(key.clone(), partition)).is_some() {
                    self.all.take_off(1);
                    forgotten = true;
                }
            }
        }
        if forgotten {
            self.order.retain(|key| self.partitions.contains_key(key));
        }
        // Epochs run from 1 to the largest number and then start at 1 again.
        self.next_epoch = self.next_epoch.checked_add(1).unwrap_or(1);
        self.last_used = Instant::now();
        Ok(self.order.iter().map(|key| self.partitions[key].wanted.clone()).collect())
    }

    /// Reports which partitions the answer contains, and records what it says about them.
    fn select(
        &mut self,
        wanted: &[PartitionWanted],
        found: &[PartitionRead],
        incremental: bool,
    ) -> Vec<bool> {
        let mut any_data = false;
        let mut named = Vec::with_capacity(found.len());
        for (want, found) in wanted.iter().zip(found) {
            let said = Said {
                high_watermark: found.mark(|bounds| bounds.high_watermark),
                last_stable_offset: found.mark(|bounds| bounds.last_stable_offset),
                log_start: found.mark(|bounds| bounds.log_start),
            };
            any_data |= found.has_data();
            let remembered = self.partitions.get_mut(&want.key());
            // An error is reported until it is gone, so it is not remembered as a report.
            let before =
                remembered.and_then(|r| std::mem::replace(&mut r.said, (!found.failed()).then_some(said)));
            named.push(!incremental || found.is_news() || before != Some(said));
        }
        if any_data {
            self.last_to_the_end(wanted, found);
        }
        named
    }

    fn last_to_the_end(&mut self, wanted: &[PartitionWanted], found: &[PartitionRead]) {
        let served: std::collections::HashSet<Key> = wanted
            .iter()
            .zip(found)
            .filter(|(_, found)| found.has_data())
            .map(|(want, _)| want.key())
            .collect();
        let (last, first): (VecDeque<Key>, VecDeque<Key>) =
            std::mem::take(&mut self.order).into_iter().partition(|key| served.contains(key));
        self.order = first.into_iter().chain(last).collect();
    }
}

impl FetchTurn {
    /// Returns the length of the answer, before the session knows of it: all records, and the fields of those
    /// partitions that are in the answer for certain.
    pub(crate) fn answer_bytes(&self, found: &[PartitionRead]) -> u64 {
        let partitions = match self.incremental {
            true => found.iter().filter(|found| found.has_data()).count(),
            false => found.len(),
        };
        let records: u64 = found.iter().map(PartitionRead::bytes).sum();
        records + partitions as u64 * PARTITION_BYTES
    }

    /// Reports which of `wanted` the answer contains.
    pub(crate) fn select(&self, found: &[PartitionRead]) -> Vec<bool> {
        match &self.session {
            Some(session) => session.lock().select(&self.wanted, found, self.incremental),
            None => vec![true; found.len()],
        }
    }
}

/// Returns the partitions of a request. As in Kafka, the last entry of a repeated partition counts.
fn wanted(request: &FetchRequest, version: i16) -> Vec<PartitionWanted> {
    let mut wanted: Vec<PartitionWanted> = Vec::new();
    let mut places = HashMap::new();
    for topic in &request.topics {
        let key = topic_key(&topic.topic, topic.topic_id, version);
        for partition in &topic.partitions {
            let want = PartitionWanted::new(key.clone(), partition);
            match places.entry(want.key()) {
                Entry::Vacant(place) => {
                    place.insert(wanted.len());
                    wanted.push(want);
                }
                Entry::Occupied(place) => wanted[*place.get()] = want,
            }
        }
    }
    wanted
}

fn topic_key(name: &str, id: [u8; 16], version: i16) -> TopicKey {
    if version >= IDS_FROM { TopicKey::Id(id) } else { TopicKey::Name(name.into()) }
}

#[cfg(test)]
mod tests {
    use tailrace_kafka_wire::messages::fetch_request::FetchTopic;

    use super::*;

    fn request(id: i32, epoch: i32, name: &str, partitions: std::ops::Range<i32>) -> FetchRequest {
        let partitions =
            partitions.map(|partition| FetchPartition { partition, ..Default::default() }).collect();
        FetchRequest {
            session_id: id,
            session_epoch: epoch,
            topics: vec![FetchTopic { topic: name.to_owned(), partitions, ..Default::default() }],
            ..Default::default()
        }
    }

    fn sessions() -> FetchSessions {
        FetchSessions::new(1000, Arc::new(KafkaMetrics::new(|_| None)))
    }

    fn session_id(sessions: &FetchSessions, request: FetchRequest) -> Result<i32, ErrorCode> {
        match sessions.admit(request, 12) {
            Admission::Turn(turn) => Ok(turn.session_id),
            Admission::Refused(code) => Err(code),
        }
    }

    #[test]
    fn all_sessions_together_remember_a_bounded_number_of_partitions() {
        tailrace_runtime::install();
        let sessions = sessions();
        let large = || request(0, 0, "t", 0..100_000);
        let ids: Vec<_> = (0..5).map(|_| session_id(&sessions, large()).expect("a turn")).collect();
        assert!(ids.iter().all(|&id| id != 0));
        assert_eq!(session_id(&sessions, request(0, 0, "t", 0..1)), Ok(0), "there is no room");
        assert_eq!(
            session_id(&sessions, request(ids[0], 1, "u", 0..1)),
            Err(ErrorCode::FetchSessionIdNotFound)
        );
        assert_eq!(sessions.all.size(), 400_000, "the session that grew too large is gone");
        assert_ne!(session_id(&sessions, request(0, 0, "t", 0..1)), Ok(0));
        assert_eq!(session_id(&sessions, request(ids[1], -1, "t", 0..1)), Ok(0));
        assert_eq!(sessions.all.size(), 300_001);
    }

    #[test]
    fn a_withheld_answer_begins_no_session_and_ends_none() {
        tailrace_runtime::install();
        let sessions = sessions();
        let turn = |request| match sessions.admit(request, 12) {
            Admission::Turn(turn) => turn,
            Admission::Refused(code) => panic!("{code:?}"),
        };
        let first = turn(request(0, 0, "t", 0..3));
        assert_ne!(first.session_id, 0);
        assert_eq!(sessions.withhold(&first), 0);
        drop(first);
        assert_eq!(sessions.all.size(), 0, "it would be nobody's");
        let id = turn(request(0, 0, "t", 0..3)).session_id;
        assert_eq!(sessions.withhold(&turn(request(id, 1, "t", 0..0))), id);
        assert_eq!(session_id(&sessions, request(id, 2, "t", 0..0)), Ok(id), "it goes on");
        assert_eq!(sessions.withhold(&turn(request(0, -1, "t", 0..3))), 0, "there was none");
    }

    #[test]
    fn names_that_no_topic_can_have_are_not_remembered() {
        tailrace_runtime::install();
        let sessions = sessions();
        let id = session_id(&sessions, request(0, 0, "t", 0..1)).expect("a turn");
        let long = "x".repeat(30_000);
        assert_eq!(session_id(&sessions, request(0, 0, &long, 0..1)), Ok(0));
        assert_eq!(
            session_id(&sessions, request(id, 1, &long, 0..1)),
            Err(ErrorCode::FetchSessionIdNotFound)
        );
    }
}
