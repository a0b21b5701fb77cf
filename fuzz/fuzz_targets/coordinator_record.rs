//! Arbitrary bytes as the log of a coordinator: of groups, of transactions, of the state of share groups,
//! or of the consumers of streams.
//! Replaying the log, and the ticks that follow, must not panic. Another coordinator must understand every
//! record that the first one writes.
//!
//! The first byte chooses the coordinator. Each record is a byte with the key's length, the key, a byte with
//! the value's length (255 for no value), and the value.
//!
//! Run: `cargo +nightly fuzz run coordinator_record -- -max_len=4096 -rss_limit_mb=512`

#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use libfuzzer_sys::fuzz_target;
use tailrace_coordination::coordinator::{Coordinator, Effects, Generations, Moment, Replayed};
use tailrace_coordination::groups::GroupCoordinator;
use tailrace_coordination::share::ShareCoordinator;
use tailrace_coordination::stream_consumers::ConsumersCoordinator;
use tailrace_coordination::transactions::TransactionCoordinator;
use tailrace_metadata::{Controller, MetadataImage};
use tailrace_types::{LeaderEpoch, Offset, TimestampMs};

/// Number of ticks after the replay.
const TICKS: usize = 8;

fuzz_target!(|data: &[u8]| {
    let Some((kind, log)) = data.split_first() else { return };
    let image = Controller::new(BTreeMap::new()).expect("the defaults are legal").image();
    match kind % 4 {
        0 => play(GroupCoordinator::new, log, &image),
        1 => play(TransactionCoordinator::new, log, &image),
        2 => play(ShareCoordinator::new, log, &image),
        _ => play(ConsumersCoordinator::new, log, &image),
    }
});

fn play<C: Coordinator>(new: fn() -> C, mut log: &[u8], image: &Arc<MetadataImage>) {
    let (mut coordinator, mut offset) = (new(), Offset(0));
    while let Some((key, value, rest)) = record(log) {
        let _ = coordinator.replay(replayed(key, value, offset));
        (log, offset) = (rest, offset.plus(1));
    }
    let mut now = TimestampMs(1_700_000_000_000);
    let drawn = AtomicU32::new(0);
    let generations = Generations::new(LeaderEpoch(1), &drawn);
    let mut effects = coordinator.loaded(&Moment { now, image, generations });
    for _ in 0..TICKS {
        understand(new(), &effects);
        let Some(deadline) = coordinator.deadline() else { return };
        now = TimestampMs(now.0.max(deadline.0));
        effects = coordinator.tick(&Moment { now, image, generations });
    }
}

/// Asserts that a new coordinator can replay everything in `effects`.
fn understand<C: Coordinator>(mut reader: C, effects: &Effects<C>) {
    for record in effects.appends.iter().flat_map(|append| &append.records) {
        let read = reader.replay(replayed(&record.key, record.value.as_deref(), Offset(0)));
        assert_eq!(read, Ok(()), "{record:?}");
    }
}

fn replayed<'a>(key: &'a [u8], value: Option<&'a [u8]>, offset: Offset) -> Replayed<'a> {
    Replayed::Record { key, value, timestamp: TimestampMs(1_700_000_000_000), offset, producer: None }
}

/// Splits off the next record of a log: its key, its value, and the rest of the log.
fn record(log: &[u8]) -> Option<(&[u8], Option<&[u8]>, &[u8])> {
    let (key_bytes, rest) = log.split_first()?;
    let (key, rest) = rest.split_at_checked((*key_bytes).into())?;
    let (value_bytes, rest) = rest.split_first()?;
    if *value_bytes == u8::MAX {
        return Some((key, None, rest));
    }
    let (value, rest) = rest.split_at_checked((*value_bytes).into())?;
    Some((key, Some(value), rest))
}
