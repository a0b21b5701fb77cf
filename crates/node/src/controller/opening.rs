//! Opening many partitions at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use tailrace_config::BrokerConfig;
use tailrace_log::VerifyReads;
use tailrace_metadata::MetadataImage;
use tailrace_types::TimestampMs;

use crate::partitions::{Opener, PartitionSlot, Topic, TopicTable};

/// Threads that open partitions. New ones wait for the disk several times each, and syncs of several files share its work.
const OPENING_THREADS: usize = 16;

/// Whether what is read is checked first.
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
        let count = usize::try_from(topic.partitions).unwrap_or(0);
        table.insert(Topic::new(topic, slots.by_ref().take(count).collect()));
    }
    table
}

/// Opens partitions on several threads, each of which waits for the disk now and then. In the order of `all`.
pub(super) fn open_many<T: Sync>(all: &[T], open: impl Fn(&T) -> PartitionSlot + Sync) -> Vec<PartitionSlot> {
    if let [one] = all {
        return vec![open(one)];
    }
    let threads = OPENING_THREADS.min(all.len());
    let next = AtomicUsize::new(0);
    let mut slots: Vec<(usize, PartitionSlot)> = std::thread::scope(|scope| {
        let open_some = || {
            let mut opened = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(one) = all.get(number) else { return opened };
                opened.push((number, open(one)));
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(open_some)).collect();
        let join =
            |worker: ScopedJoinHandle<'_, _>| worker.join().expect("opening partitions does not panic");
        workers.into_iter().flat_map(join).collect()
    });
    slots.sort_by_key(|(number, _)| *number);
    slots.into_iter().map(|(_, slot)| slot).collect()
}
