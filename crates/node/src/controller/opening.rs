//! Opens many partitions at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tailrace_config::BrokerConfig;
use tailrace_env::thread;
use tailrace_log::VerifyReads;
use tailrace_metadata::MetadataImage;
use tailrace_types::TimestampMs;

use crate::partitions::{Opener, PartitionSlot, Topic, TopicTable};

/// Threads that open partitions. A new partition waits for the disk several times, and syncs of several files
/// share the disk's work.
const OPENING_THREADS: usize = 16;

/// Returns whether reads check what they read first.
pub(super) fn verify_reads(config: &BrokerConfig) -> VerifyReads {
    match config.tailrace_read_verify_after_ms {
        ..0 => VerifyReads::Never,
        0 => VerifyReads::Always,
        1.. => VerifyReads::First,
    }
}

/// Opens all partitions of all topics.
pub(super) fn open_all(image: &MetadataImage, opener: &Opener, now: TimestampMs) -> TopicTable {
    opener.store.set_verify_reads(verify_reads(image.broker()));
    let all: Vec<_> =
        image.topics().flat_map(|topic| topic.topic_partitions().map(move |id| (topic, id))).collect();
    let opener = opener.of_many(all.len());
    let slots = open_many(&all, |(topic, id)| opener.open(topic, id, image.broker(), now));
    let mut slots = slots.into_iter();
    let mut table = TopicTable::default();
    for topic in image.topics() {
        let count = topic.partition_count();
        table.insert(Topic::new(topic, slots.by_ref().take(count).collect()));
    }
    table
}

/// Opens partitions on several threads, because each open waits for the disk now and then. Results are in the
/// order of `all`.
pub(super) fn open_many<T: Sync>(all: &[T], open: impl Fn(&T) -> PartitionSlot + Sync) -> Vec<PartitionSlot> {
    if let [one] = all {
        return vec![open(one)];
    }
    let threads = OPENING_THREADS.min(all.len());
    let next = AtomicUsize::new(0);
    let opened = Mutex::new(Vec::with_capacity(all.len()));
    thread::run_on(threads, || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(number) else { return };
            let slot = open(one);
            opened.lock().push((number, slot));
        }
    });
    let mut slots = opened.into_inner();
    slots.sort_by_key(|(number, _)| *number);
    slots.into_iter().map(|(_, slot)| slot).collect()
}
