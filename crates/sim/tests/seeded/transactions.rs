//! Transactions of one partition against a plain model, with producers, markers, syncs, trims, crashes and
//! restarts in any order. The last stable offset is right and never goes back, the aborted ranges are exactly
//! right, and a restart finds the same in a snapshot as in the log. Each run is one seed. `TAILRACE_SEED=N`
//! replays one.

#![expect(clippy::unwrap_used, reason = "tests report failures by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use tailrace_log::{Disk, LogConfig, LogStore, PartitionIdentity};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions, split_batches};
use tailrace_replication::{
    AbortedTransactions, AppendError, Durability, Policy, ProducerError, ProducerState, Producers, Solo,
    TransactionMarker, VerificationGuard,
};
use tailrace_sim::{CrashMode, Rng, SimDisk};
use tailrace_types::{
    Offset, PartitionId, ProducerEpoch, ProducerId, TimestampMs, TopicId, TopicName, TopicPartition,
};

const SEEDS: u64 = 300;
const STEPS: usize = 120;
const DIR: &str = "/data/t-0";
const PRODUCERS: i64 = 4;

/// An entry of the log. The model stores nothing else, and derives everything from the entries each time.
#[derive(Clone, Copy, Debug)]
struct Entry {
    base: i64,
    records: i64,
    producer: i64,
    epoch: i16,
    sequence: i32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Transactional,
    Marker { committed: bool, coordinator_epoch: i32 },
}

/// What the model knows of a producer.
#[derive(Clone, Copy, Debug)]
struct Known {
    epoch: i16,
    next_sequence: i32,
    open: Option<i64>,
    coordinator_epoch: i32,
}

/// Producer, first offset, offset of the marker.
type Ended = (i64, i64, i64);

struct World {
    rng: Rng,
    disk: SimDisk,
    now: i64,
    policy: Policy,
    log: Vec<Entry>,
    /// The values at the last check, in this life of the partition.
    stable: i64,
    log_start: i64,
    /// The log start moved, and no snapshot remembers what was below it. A restart forgets the producers that
    /// were there.
    forgetful: bool,
}

impl World {
    fn known(&self) -> BTreeMap<i64, Known> {
        let mut known: BTreeMap<i64, Known> = BTreeMap::new();
        for entry in &self.log {
            let fresh = Known { epoch: entry.epoch, next_sequence: 0, open: None, coordinator_epoch: -1 };
            let state = known.entry(entry.producer).or_insert(fresh);
            if entry.epoch > state.epoch {
                (state.epoch, state.next_sequence) = (entry.epoch, 0);
            }
            match entry.kind {
                Kind::Marker { coordinator_epoch, .. } => {
                    (state.open, state.coordinator_epoch) = (None, coordinator_epoch);
                    continue;
                }
                Kind::Transactional => state.open = state.open.or(Some(entry.base)),
                Kind::Plain => {}
            }
            // A coordinator's batch has no sequence number, and 0 follows it.
            let after = entry.sequence + i32::try_from(entry.records).unwrap();
            state.next_sequence = if entry.sequence < 0 { 0 } else { after };
        }
        known
    }

    /// Returns the transactions with a marker: committed ones, aborted ones.
    fn ended(&self) -> (Vec<Ended>, Vec<Ended>) {
        let mut open = BTreeMap::new();
        let (mut committed_ones, mut aborted) = (Vec::new(), Vec::new());
        for entry in &self.log {
            match entry.kind {
                Kind::Transactional => drop(open.entry(entry.producer).or_insert(entry.base)),
                Kind::Plain => {}
                Kind::Marker { committed, .. } => {
                    let list = if committed { &mut committed_ones } else { &mut aborted };
                    list.extend(
                        open.remove(&entry.producer).map(|first| (entry.producer, first, entry.base)),
                    );
                }
            }
        }
        (committed_ones, aborted)
    }

    fn last_stable_offset(&self, high_watermark: i64) -> i64 {
        let (committed, aborted) = self.ended();
        let undecided = committed.iter().chain(&aborted).filter(|t| t.2 >= high_watermark).map(|t| t.1);
        let open = self.known().into_values().filter_map(|known| known.open);
        let first = undecided.chain(open).min().unwrap_or(high_watermark);
        first.max(self.log_start).min(high_watermark)
    }

    /// Checks everything that readers can see.
    fn check(&mut self, core: &Solo<SimDisk>) {
        let reader = core.reader();
        let high_watermark = reader.high_watermark().get();
        let stable = reader.last_stable_offset().get();
        assert_eq!(stable, self.last_stable_offset(high_watermark), "{:?}", self.log);
        assert!(stable >= self.stable, "the last stable offset went back from {} to {stable}", self.stable);
        self.stable = stable;
        let aborted = self.ended().1;
        let above = |t: &&Ended| t.2 >= self.log_start;
        for _ in 0..4 {
            let from =
                self.log_start + self.rng.below(u64::try_from(stable - self.log_start + 1).unwrap()) as i64;
            let upto = from + self.rng.below(20) as i64;
            let found: Vec<Ended> = reader
                .aborted_transactions(Offset(from), Offset(upto))
                .iter()
                .map(|t| (t.producer_id.get(), t.first_offset.get(), t.last_offset.get()))
                .collect();
            let wanted: Vec<Ended> =
                aborted.iter().filter(above).filter(|t| t.2 >= from && t.1 < upto).copied().collect();
            assert_eq!(found, wanted, "{from}..{upto} of {:?}", self.log);
        }
        for (id, known) in self.known() {
            let state = core.producers().get(ProducerId(id)).unwrap();
            assert_eq!((state.epoch.get(), state.coordinator_epoch), (known.epoch, known.coordinator_epoch));
            assert_eq!(state.current_transaction.map(Offset::get), known.open);
            assert_eq!(core.producers().has_transaction(ProducerId(id), state.epoch), known.open.is_some());
        }
    }

    fn push(&mut self, header: &BatchHeader, base: Offset, kind: Kind) {
        self.log.push(Entry {
            base: base.get(),
            records: header.record_count.into(),
            producer: header.producer_id.get(),
            epoch: header.producer_epoch.get(),
            sequence: header.base_sequence,
            kind,
        });
    }
}

fn open(world: &World, disk: &SimDisk) -> Solo<SimDisk> {
    let topic = TopicPartition::new(TopicName::new("t").unwrap(), PartitionId(0));
    let identity = PartitionIdentity { topic_id: TopicId([7; 16]), topic_partition: topic };
    let config = LogConfig {
        segment_bytes: 2048,
        preallocate_bytes: 1024,
        retention_ms: None,
        ..LogConfig::default()
    };
    let store = LogStore::new(disk.clone(), 8);
    let mut core =
        Solo::open(&store, Path::new(DIR), &identity, config, world.policy, TimestampMs(world.now))
            .unwrap()
            .0;
    core.begin_epoch().unwrap();
    core
}

fn batch(world: &mut World, options: BatchOptions) -> (BatchHeader, Bytes) {
    let mut builder = BatchBuilder::new(options);
    for _ in 0..world.rng.between(1, 3) {
        builder.push(TimestampMs(world.now), None, Some(b"value"), &[]).unwrap();
    }
    builder.build_with_header()
}

/// Sends a batch of some producer, right or wrong. The model says which.
fn produce(world: &mut World, core: &mut Solo<SimDisk>) {
    let id = world.rng.between(1, PRODUCERS as u64) as i64;
    let known = world.known().get(&id).copied();
    let (epoch, next) = known.map_or((0, 0), |known| (known.epoch, known.next_sequence));
    let epoch = match world.rng.below(12) {
        0 => epoch - 1,
        1 => epoch + 1,
        _ => epoch,
    };
    if epoch < 0 {
        return;
    }
    // Coordinators and clients never write to the same partition on behalf of one producer.
    let from_coordinator = id == PRODUCERS;
    let next = if known.is_some_and(|known| epoch > known.epoch) { 0 } else { next };
    let sequence = if from_coordinator { -1 } else { next + i32::from(world.rng.percent(5)) };
    let transactional = from_coordinator || world.rng.percent(65);
    let options = BatchOptions {
        producer_id: ProducerId(id),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence: sequence,
        transactional,
        ..BatchOptions::default()
    };
    let (header, bytes) = batch(world, options);
    let now = TimestampMs(world.now);
    let result = core.append(&header, &bytes, now);
    let kind = if transactional { Kind::Transactional } else { Kind::Plain };
    let in_transaction = known.is_some_and(|known| known.open.is_some() && known.epoch == epoch);
    match known {
        Some(known) if epoch < known.epoch => {
            assert!(
                matches!(result, Err(AppendError::Producer(ProducerError::StaleEpoch { .. }))),
                "{result:?}"
            );
        }
        Some(_) if sequence >= 0 && sequence != next => {
            let expected = matches!(result, Err(AppendError::Producer(ProducerError::OutOfOrder { .. })));
            assert!(expected, "{result:?}");
        }
        Some(Known { open: Some(_), .. }) if !transactional => {
            let refused =
                matches!(result, Err(AppendError::Producer(ProducerError::NotTransactional { .. })));
            assert!(refused, "{result:?}");
        }
        _ if transactional && sequence >= 0 && !in_transaction => {
            assert!(
                matches!(result, Err(AppendError::Producer(ProducerError::Unverified { .. }))),
                "{result:?}"
            );
            verify(world, core, (&header, &bytes), known.is_some());
        }
        _ => {
            let appended = result.unwrap();
            assert_eq!(appended.duplicate, None);
            world.push(&header, appended.base_offset, kind);
            if sequence >= 0 {
                let again = core.append(&header, &bytes, now).unwrap();
                assert_eq!(again.duplicate.unwrap().base_offset, appended.base_offset);
            }
        }
    }
}

/// Sends the first batch of a transaction. Its coordinator is asked, and other things happen meanwhile.
fn verify(
    world: &mut World,
    core: &mut Solo<SimDisk>,
    (header, bytes): (&BatchHeader, &Bytes),
    is_known: bool,
) {
    let bumped = world.rng.percent(50);
    let guard: VerificationGuard = core.begin_verification(header, bumped, TimestampMs(world.now));
    let mut ended = false;
    if world.rng.percent(20) {
        let before = world.log.len();
        mark(world, core, Some(header.producer_id.get()));
        ended = world.log.len() > before;
    }
    let result = core.append_verified(header, bytes, Some(guard), TimestampMs(world.now));
    match result {
        Ok(appended) => {
            assert!(!ended, "a marker came in between, but the batch still opened a transaction");
            assert!(is_known || !bumped || header.base_sequence == 0);
            world.push(header, appended.base_offset, Kind::Transactional);
        }
        Err(AppendError::Producer(ProducerError::OutOfOrder { expected: 0, .. })) => {
            assert!(ended || header.base_sequence > 0);
        }
        Err(AppendError::Producer(_)) => assert!(ended),
        Err(other) => panic!("{other}"),
    }
}

fn mark(world: &mut World, core: &mut Solo<SimDisk>, producer: Option<i64>) {
    let id = producer.unwrap_or_else(|| world.rng.between(1, PRODUCERS as u64) as i64);
    let known = world.known().get(&id).copied();
    let epochs_are_bumped = world.rng.percent(50);
    let epoch = known.map_or(0, |known| known.epoch) + i16::from(epochs_are_bumped && world.rng.percent(80))
        - i16::from(world.rng.percent(5));
    if epoch < 0 {
        return;
    }
    let marker = TransactionMarker {
        producer_id: ProducerId(id),
        producer_epoch: ProducerEpoch(epoch),
        coordinator_epoch: known.map_or(0, |known| known.coordinator_epoch.max(0))
            + i32::from(world.rng.percent(5))
            - i32::from(world.rng.percent(5)),
        committed: world.rng.percent(50),
        epochs_are_bumped,
    };
    let result = core.append_marker(&marker, TimestampMs(world.now));
    let known = known.unwrap_or(Known { epoch: -1, next_sequence: 0, open: None, coordinator_epoch: -1 });
    if epoch < known.epoch || (epochs_are_bumped && epoch == known.epoch && known.open.is_some()) {
        assert!(matches!(result, Err(AppendError::Producer(ProducerError::StaleEpoch { .. }))), "{result:?}");
    } else if marker.coordinator_epoch < known.coordinator_epoch {
        let fenced = matches!(result, Err(AppendError::Producer(ProducerError::CoordinatorFenced { .. })));
        assert!(fenced, "{result:?}");
    } else {
        let (committed, coordinator_epoch) = (marker.committed, marker.coordinator_epoch);
        world.log.push(Entry {
            base: result.unwrap().base_offset.get(),
            records: 1,
            producer: id,
            epoch,
            sequence: -1,
            kind: Kind::Marker { committed, coordinator_epoch },
        });
    }
}

fn sync(world: &mut World, core: &mut Solo<SimDisk>) {
    let checkpoint = world.rng.percent(30);
    let Some(ticket) = core.begin_sync(checkpoint) else { return };
    // Appends may come between plan and end. The ticket must not cover them.
    match world.rng.below(3) {
        0 => produce(world, core),
        1 => mark(world, core, None),
        _ => {}
    }
    let result = ticket.run();
    core.finish_sync(&ticket, &result);
    result.unwrap();
}

fn delete_records(world: &mut World, core: &mut Solo<SimDisk>) {
    world.forgetful = world.rng.percent(30);
    if !world.forgetful
        && let Some(ticket) = core.begin_sync(true)
    {
        let result = ticket.run();
        core.finish_sync(&ticket, &result);
        result.unwrap();
    }
    let high_watermark = core.reader().high_watermark().get();
    let room = u64::try_from(high_watermark - world.log_start + 1).unwrap();
    let to = world.log_start + (world.rng.below(room) as i64).min(6);
    let trim = core.advance_log_start(Offset(to)).unwrap();
    let result = trim.run();
    core.finish_trim(&trim, &result);
    result.unwrap();
    world.log_start = to;
}

/// Checks that a start from the log alone gives the same as one from a snapshot and the rest.
fn compare_with_the_log(world: &World, from_snapshot: &Producers) {
    if world.log_start > 0 {
        return;
    }
    let disk = world.disk.crash(CrashMode::KeepAll);
    for entry in disk.read_dir(Path::new(DIR)).unwrap() {
        let path = Path::new(DIR).join(&entry.name);
        if path.extension().is_some_and(|extension| extension == "snapshot") {
            disk.remove_file(&path).unwrap();
        }
    }
    let core = open(world, &disk);
    assert_eq!(timeless(core.producers()), timeless(from_snapshot));
}

/// Leaves out times: batches behind a snapshot count as appended at the time when they are read.
fn timeless(
    producers: &Producers,
) -> (Vec<(ProducerId, ProducerState)>, &AbortedTransactions, Option<Offset>) {
    let last_append = TimestampMs(0);
    let states = producers.iter().map(|(id, state)| (id, ProducerState { last_append, ..state.clone() }));
    (states.collect(), producers.aborted(), producers.first_undecided())
}

fn restart(world: &mut World, core: Solo<SimDisk>) -> Solo<SimDisk> {
    let mut before = core.producers().clone();
    let clean = world.rng.percent(40);
    if clean {
        before.commit(core.reader().log_end().offset());
        core.close().unwrap();
    } else {
        drop(core);
        let mode = match world.rng.below(3) {
            0 => CrashMode::LoseAll,
            1 => CrashMode::KeepAll,
            _ => CrashMode::Random,
        };
        world.disk = world.disk.crash(mode);
    }
    let disk = world.disk.clone();
    let core = open(world, &disk);
    let end = core.reader().log_end().get();
    world.log.retain(|entry| entry.base < end);
    assert_eq!(world.log.last().map_or(0, |last| last.base + last.records), end);
    if clean {
        assert_eq!(*core.producers(), before);
    }
    compare_with_the_log(world, core.producers());
    core
}

/// Checks that a consumer that reads up to the last stable offset, and skips as the protocol says, gets what
/// was committed.
fn consume(world: &World, core: &Solo<SimDisk>) {
    let reader = core.reader();
    let (from, upto) = (reader.log_start(), reader.last_stable_offset());
    let mut aborted = reader.aborted_transactions(from, upto);
    aborted.sort_by_key(|transaction| transaction.first_offset);
    let mut aborted = aborted.into_iter().peekable();
    let mut skipping = std::collections::BTreeSet::new();
    let (mut seen, mut at) = (Vec::new(), from);
    while let Some(slice) = reader.log().read(at, upto, 1 << 20, true).unwrap() {
        for item in split_batches(&slice.read().unwrap()) {
            let (header, _) = item.unwrap();
            while let Some(next) = aborted.next_if(|next| next.first_offset <= header.last_offset()) {
                skipping.insert(next.producer_id);
            }
            if header.attributes.is_control() {
                skipping.remove(&header.producer_id);
            } else if !(header.attributes.is_transactional() && skipping.contains(&header.producer_id)) {
                seen.push(header.base_offset.get());
            }
        }
        at = slice.next_offset;
    }
    let lost = world.ended().1;
    let is_aborted = |entry: &Entry| {
        entry.kind == Kind::Transactional
            && lost.iter().any(|t| t.0 == entry.producer && (t.1..t.2).contains(&entry.base))
    };
    let visible =
        |entry: &&Entry| entry.base + entry.records > from.get() && entry.base + entry.records <= upto.get();
    let wanted: Vec<_> = world
        .log
        .iter()
        .filter(visible)
        .filter(|entry| !matches!(entry.kind, Kind::Marker { .. }) && !is_aborted(entry))
        .map(|entry| entry.base)
        .collect();
    assert_eq!(seen, wanted, "{:?}", world.log);
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let disk = SimDisk::new(rng.next_u64());
    disk.create_dir(Path::new("/data")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    let durability = if rng.percent(70) {
        Durability::Strict
    } else {
        Durability::Relaxed { flush_messages: None, flush_ms: None }
    };
    let policy = Policy {
        durability,
        producer_expiration_ms: i64::MAX,
        timestamp_type: tailrace_records::TimestampType::CreateTime,
    };
    let mut world =
        World { rng, disk, now: 1000, policy, log: Vec::new(), stable: 0, log_start: 0, forgetful: false };
    let disk = world.disk.clone();
    let mut core = open(&world, &disk);
    for _ in 0..STEPS {
        world.now += 10;
        match world.rng.below(20) {
            0..=8 => produce(&mut world, &mut core),
            9..=12 => mark(&mut world, &mut core, None),
            13..=16 => sync(&mut world, &mut core),
            17 if world.rng.percent(20) => delete_records(&mut world, &mut core),
            18 => {
                core = restart(&mut world, core);
                if world.forgetful {
                    return consume(&world, &core);
                }
                if durability != Durability::Strict {
                    // What a relaxed topic showed may be lost with the machine.
                    world.stable = 0;
                }
            }
            _ => consume(&world, &core),
        }
        world.check(&core);
    }
    consume(&world, &core);
}

#[test]
fn readers_of_committed_records_see_what_a_plain_model_says() {
    if let Ok(seed) = std::env::var("TAILRACE_SEED") {
        return run(seed.parse().unwrap());
    }
    for seed in 0..SEEDS {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("failed with TAILRACE_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
