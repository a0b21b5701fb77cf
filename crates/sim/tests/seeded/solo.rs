//! A partition on a disk that loses unsynced data: what it acknowledged stays, once and in order, and no
//! (offset, epoch) names two batches. Each run is one seed. `TAILRACE_SEED=N` replays one.

#![expect(clippy::unwrap_used, reason = "tests report failures by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use tailrace_log::{Disk, LogConfig, LogStore, PartitionIdentity};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_replication::{AppendError, BATCHES_REMEMBERED, Durability, Policy, Solo, SyncOutcome};
use tailrace_sim::{CrashMode, Effect, OpKind, Rng, Rule, SimDisk};
use tailrace_types::{
    Offset, PartitionId, ProducerEpoch, ProducerId, TimestampMs, TopicId, TopicName, TopicPartition,
};

const SEEDS: u64 = 300;
const STRICT: Policy = Policy {
    durability: Durability::Strict,
    producer_expiration_ms: i64::MAX,
    timestamp_type: tailrace_records::TimestampType::CreateTime,
};

struct World {
    rng: Rng,
    disk: SimDisk,
    now: i64,
    /// The sequence number that the producer sends next. It advances only when its batch is known to be
    /// stored.
    sequence: i32,
    /// Batches acknowledged as committed, by base offset.
    committed: BTreeMap<i64, Bytes>,
    /// Every batch ever stored, by offset and epoch.
    stamped: BTreeMap<(i64, i32), Bytes>,
}

/// The server makes the data folder itself durable before it opens any partition.
fn data_folder(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.create_dir(Path::new("/data")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

fn open(world: &World) -> Solo<SimDisk> {
    open_with(&world.disk, STRICT, world.now)
}

fn open_with(disk: &SimDisk, policy: Policy, now: i64) -> Solo<SimDisk> {
    let topic = TopicPartition::new(TopicName::new("t").unwrap(), PartitionId(0));
    let identity = PartitionIdentity { topic_id: TopicId([7; 16]), topic_partition: topic };
    let config = LogConfig {
        segment_bytes: 4096,
        preallocate_bytes: 1024,
        retention_ms: None,
        ..LogConfig::default()
    };
    let store = LogStore::new(disk.clone(), 8);
    let (dir, now) = (Path::new("/data/t-0"), TimestampMs(now));
    Solo::open(&store, dir, &identity, config, policy, now).expect("the partition opens").0
}

fn batch(world: &mut World) -> (BatchHeader, Bytes) {
    let options = BatchOptions {
        producer_id: ProducerId(1),
        producer_epoch: ProducerEpoch(0),
        base_sequence: world.sequence,
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(options);
    // The content of a retry depends only on its sequence number, so a duplicate is the same batch.
    let mut content = Rng::new(world.sequence as u64 + 1);
    for _ in 0..content.between(1, 4) {
        let bytes = content.between(1, 300) as usize;
        let value = content.bytes(bytes);
        builder.push(TimestampMs(1), None, Some(&value), &[]).unwrap();
    }
    let bytes = builder.build();
    (BatchHeader::parse(&bytes).unwrap(), bytes)
}

/// Returns the bytes from 16 on, which are as they were sent.
fn body(bytes: &Bytes) -> Bytes {
    bytes.slice(16..)
}

fn stored(core: &Solo<SimDisk>) -> BTreeMap<(i64, i32), Bytes> {
    let reader = core.reader();
    let mut found = BTreeMap::new();
    let mut at = reader.log_start();
    while let Some(slice) = reader.log().read(at, reader.log_end().offset(), 1 << 20, true).unwrap() {
        let bytes = slice.read().unwrap();
        for item in tailrace_records::split_batches(&bytes) {
            let (header, batch) = item.unwrap();
            assert!(tailrace_records::verify_crc(batch), "a torn batch is readable");
            assert_eq!(header.base_offset, at, "offsets have a hole");
            at = header.next_offset();
            found.insert(
                (header.base_offset.get(), header.leader_epoch.get()),
                body(&Bytes::copy_from_slice(batch)),
            );
        }
    }
    found
}

/// Checks the partition against everything that was promised before.
fn check(world: &mut World, core: &Solo<SimDisk>) {
    let found = stored(core);
    let by_offset: BTreeMap<i64, &Bytes> =
        found.iter().map(|((offset, _), bytes)| (*offset, bytes)).collect();
    for (offset, bytes) in &world.committed {
        assert_eq!(
            by_offset.get(offset),
            Some(&bytes),
            "the committed batch at offset {offset} is lost or changed"
        );
    }
    for (key, bytes) in found {
        let before = world.stamped.entry(key).or_insert_with(|| bytes.clone());
        assert_eq!(*before, bytes, "offset and epoch {key:?} belong to two batches");
    }
}

fn append(world: &mut World, core: &mut Solo<SimDisk>, pending: &mut Vec<(i64, i64, Bytes)>) {
    // Like an idempotent producer, keep no more in flight than the partition remembers.
    if pending.len() >= BATCHES_REMEMBERED || (core.needs_epoch() && core.begin_epoch().is_err()) {
        return;
    }
    let (header, bytes) = batch(world);
    let appended = match core.append(&header, &bytes, TimestampMs(world.now)) {
        Ok(appended) => appended,
        Err(AppendError::Halted { .. } | AppendError::Log(_) | AppendError::Full) => return,
        Err(AppendError::Producer(error)) => panic!("a well-behaved producer was refused: {error}"),
    };
    let epoch = core.reader().epoch().get();
    if appended.duplicate.is_none() {
        let key = (appended.base_offset.get(), epoch);
        let before = world.stamped.insert(key, body(&bytes));
        assert_eq!(before, None, "offset and epoch {key:?} were assigned twice");
    }
    world.sequence += header.record_count;
    pending.push((appended.base_offset.get(), appended.committed_at.get(), body(&bytes)));
}

fn sync(world: &mut World, core: &mut Solo<SimDisk>, pending: &mut Vec<(i64, i64, Bytes)>) {
    let checkpoint = world.rng.percent(20);
    let Some(ticket) = core.begin_sync(checkpoint) else { return };
    // Appends may come between plan and run. The ticket must not cover them.
    if world.rng.percent(50) {
        append(world, core, pending);
    }
    let result = ticket.run();
    core.finish_sync(&ticket, &result);
    let high_watermark = core.reader().high_watermark().get();
    pending.retain(|(base, committed_at, bytes)| {
        let committed = *committed_at <= high_watermark;
        if committed {
            world.committed.insert(*base, bytes.clone());
        }
        !committed
    });
}

fn crash(world: &mut World, core: Solo<SimDisk>, pending: &mut Vec<(i64, i64, Bytes)>) -> Solo<SimDisk> {
    drop(core);
    let mode = match world.rng.below(3) {
        0 => CrashMode::LoseAll,
        1 => CrashMode::KeepAll,
        _ => CrashMode::Random,
    };
    world.disk = world.disk.crash(mode);
    // These answers never came. The producer resends the batches, starting with the first.
    if !pending.is_empty() {
        let committed: i64 = world.committed.keys().next_back().map_or(0, |base| *base);
        let after =
            world.committed.get(&committed).map_or(0, |bytes| committed + i64::from(records_of(bytes)));
        world.sequence = i32::try_from(after).unwrap();
        pending.clear();
    }
    open(world)
}

/// The record count is at byte 57 of a batch.
fn records_of(body: &Bytes) -> i32 {
    i32::from_be_bytes(body[41..45].try_into().unwrap())
}

fn run(seed: u64, rule: Option<Rule>) {
    let mut rng = Rng::new(seed);
    let disk = data_folder(rng.next_u64());
    let (committed, stamped) = (BTreeMap::new(), BTreeMap::new());
    let mut world = World { rng, disk, now: 1000, sequence: 0, committed, stamped };
    let mut core = open(&world);
    if let Some(rule) = rule {
        world.disk.add_rule(rule);
    }
    let mut pending = Vec::new();
    let mut high_watermark = Offset(0);
    for _ in 0..60 {
        world.now += 10;
        match world.rng.below(10) {
            0..=4 => append(&mut world, &mut core, &mut pending),
            5..=7 => sync(&mut world, &mut core, &mut pending),
            8 => {
                core = crash(&mut world, core, &mut pending);
                check(&mut world, &core);
            }
            _ => {
                let end = core.reader().log_end();
                core.close().unwrap();
                core = open(&world);
                assert_eq!(core.reader().log_end(), end, "a clean stop lost records");
                assert_eq!(core.reader().high_watermark().get(), end.get());
                for (base, _, bytes) in pending.drain(..) {
                    world.committed.insert(base, bytes);
                }
                check(&mut world, &core);
            }
        }
        let now = core.reader().high_watermark().offset();
        let durable_floor = world.committed.keys().next_back().map_or(Offset(0), |base| Offset(*base));
        assert!(now >= durable_floor, "the high watermark fell below a committed batch");
        high_watermark = high_watermark.max(durable_floor);
    }
    core = crash(&mut world, core, &mut pending);
    check(&mut world, &core);
}

#[test]
fn what_was_committed_survives_every_crash() {
    if let Ok(seed) = std::env::var("TAILRACE_SEED") {
        return run(seed.parse().unwrap(), None);
    }
    for seed in 0..SEEDS {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed, None)) {
            eprintln!("failed with TAILRACE_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn a_disk_that_only_claims_to_sync_is_caught() {
    let lie = Rule {
        kind: Some(OpKind::SyncData),
        path_ends: ".log".to_owned(),
        after: 0,
        times: u64::MAX,
        effect: Effect::Lie,
    };
    std::panic::set_hook(Box::new(|_| {}));
    let caught =
        (0..SEEDS).filter(|&seed| std::panic::catch_unwind(|| run(seed, Some(lie.clone()))).is_err()).count();
    let _ = std::panic::take_hook();
    assert!(caught > 0, "no seed noticed that nothing was ever synced");
}

#[test]
fn a_failed_sync_halts_the_partition_and_commits_nothing() {
    let disk = data_folder(1);
    let (committed, stamped) = (BTreeMap::new(), BTreeMap::new());
    let mut world = World { rng: Rng::new(1), disk, now: 1000, sequence: 0, committed, stamped };
    let mut core = open(&world);
    let mut pending = Vec::new();
    append(&mut world, &mut core, &mut pending);
    let eio = Rule {
        kind: Some(OpKind::SyncData),
        path_ends: ".log".to_owned(),
        after: 0,
        times: 1,
        effect: Effect::Eio,
    };
    world.disk.add_rule(eio);
    let ticket = core.begin_sync(false).expect("there is something to sync");
    let result = ticket.run();
    assert!(result.is_err());
    assert_eq!(core.finish_sync(&ticket, &result), SyncOutcome::Halted);
    assert_eq!(core.reader().high_watermark().get(), 0);
    assert!(core.halted().is_some());
    let (header, bytes) = batch(&mut world);
    let refused = core.append(&header, &bytes, TimestampMs(2000));
    assert!(matches!(refused, Err(AppendError::Halted { .. })), "{refused:?}");
    assert!(core.begin_sync(false).is_none(), "a failed sync must not be retried");
    // Reads continue.
    assert!(
        core.reader()
            .log()
            .read(Offset(0), core.reader().log_end().offset(), 1 << 20, true)
            .unwrap()
            .is_some()
    );
}

/// The records are old, but the producer itself was silent only for a moment.
#[test]
fn a_producer_of_old_records_is_known_after_a_crash() {
    const MINUTE: i64 = 60_000;
    let policy = Policy { producer_expiration_ms: MINUTE, ..STRICT };
    let (committed, stamped) = (BTreeMap::new(), BTreeMap::new());
    let (disk, now) = (data_folder(1), 1000 * MINUTE);
    let mut world = World { rng: Rng::new(1), disk, now, sequence: 0, committed, stamped };
    let mut core = open_with(&world.disk, policy, now);
    core.begin_epoch().unwrap();
    let (header, bytes) = batch(&mut world);
    assert!(header.max_timestamp.0 < now - 2 * MINUTE);
    core.append(&header, &bytes, TimestampMs(now)).unwrap();
    sync(&mut world, &mut core, &mut Vec::new());
    drop(core);
    // Its client got no answer, and resends the batch.
    let mut core = open_with(&world.disk.crash(CrashMode::KeepAll), policy, now + 1);
    core.begin_epoch().unwrap();
    let again = core.append(&header, &bytes, TimestampMs(now + 1)).unwrap();
    assert!(again.duplicate.is_some(), "the batch is stored twice");
}
