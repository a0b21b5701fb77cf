//! acks=all on a strict topic: tailrace acknowledges a batch after its fdatasync. Kafka does not sync at all.
//! The part also measures the speed of the disk, since no server that syncs can be faster.

use super::super::client::Blast;
use super::super::lab::{Lab, Slot, alternated};
use super::super::limits;
use super::super::sample::Figures;
use super::super::servers::{Durability, Endpoint, Flush};

const PART: &str = "strict";
const RECORDS: u64 = 1_500_000;
const RECORD_BYTES: f64 = 1024.0;
const DISK_BYTES: u64 = 512 << 20;
/// The share of the disk's bandwidth that counts as its full speed.
const DISK_SHARE: f64 = 0.8;
const PARTITIONS: u32 = 1000;
const PARTITIONED_RECORDS: u64 = 800_000;

pub(super) fn run(lab: &mut Lab) -> Result<(), String> {
    let kafka = lab.kafka(Flush::Default)?;
    let server = lab.tailrace(Durability::Strict)?;
    let tailrace = server.endpoint();
    for round in 1..=lab.rounds {
        one(lab, round, &alternated(round, &tailrace, &kafka))?;
        disk(lab, round)?;
    }
    let many = Blast {
        acks: "all",
        partitions: PARTITIONS,
        ..Blast::new("produce", "thousand", lab.scaled(PARTITIONED_RECORDS))
    };
    let pair = [&tailrace, &kafka];
    pair.iter().try_for_each(|endpoint| lab.create(endpoint, "thousand", PARTITIONS))?;
    for round in 1..=lab.rounds {
        for endpoint in alternated(round, &tailrace, &kafka) {
            lab.blast(Slot { part: PART, load: "thousand", round }, &endpoint, &many)?;
        }
    }
    pair.iter().try_for_each(|endpoint| lab.delete(endpoint, "thousand"))?;
    // Some file systems take many seconds to free the blocks of this many files.
    server.discard()?;
    lab.settle();
    Ok(())
}

fn one(lab: &mut Lab, round: u32, pair: &[Endpoint]) -> Result<(), String> {
    let topic = format!("one-{round}");
    let blast = Blast { acks: "all", ..Blast::new("produce", &topic, lab.scaled(RECORDS)) };
    pair.iter().try_for_each(|endpoint| lab.create(endpoint, &topic, 1))?;
    for endpoint in pair {
        lab.blast(Slot { part: PART, load: "one", round }, endpoint, &blast)?;
    }
    pair.iter().try_for_each(|endpoint| lab.delete(endpoint, &topic))?;
    lab.settle();
    Ok(())
}

/// Measures the disk, and keeps the records per second that 80 % of its bandwidth would carry.
fn disk(lab: &mut Lab, round: u32) -> Result<(), String> {
    let bytes = usize::try_from(lab.scaled(DISK_BYTES)).map_err(|error| error.to_string())?;
    let rate =
        limits::write_and_sync_bytes_per_s(&lab.scratch, bytes).map_err(|error| format!("disk: {error}"))?;
    let named = [("sent_per_s", rate * DISK_SHARE / RECORD_BYTES), ("disk_mb_per_s", rate / 1e6)];
    let figures: Figures = named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    lab.keep(Slot { part: PART, load: "one", round }, "disk", figures, None, String::new())
}
