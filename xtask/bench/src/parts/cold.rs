//! Do cold reads slow down producers? The load is 3,000/s of 1 KB over 25 connections, acks=1, relaxed
//! topics. It runs alone, beside a consumer that reads from the page cache (which takes CPU but never waits
//! for the disk), and beside a consumer that reads 10 GB cold.

use super::super::client::{Blast, OpenLoop, WARM_S};
use super::super::lab::{Lab, Slot, alternated};
use super::super::servers::{Durability, Endpoint, Flush};
use super::super::{limits, proc};
use super::part::COLD_ROUNDS_MAX;

use std::thread;
use std::time::Duration;

const PART: &str = "cold";
const TOPIC: &str = "cold";
const RECORDS: u64 = 10_000_000;
/// A page cache of 16 GB cannot hold the topics of both servers, but it can hold this much of each.
const CACHED_RECORDS: u64 = 5_000_000;
const SECONDS: u32 = 8;
/// Delay of the reader: openloop takes 2.2 s to connect, and the reader starts with the measured time.
const LEAD: Duration = Duration::from_millis(2200 + 1000 * WARM_S as u64);
const READ_LIMIT: Duration = Duration::from_secs(240);

pub(super) fn run(lab: &mut Lab) -> Result<(), String> {
    let kafka = lab.kafka(Flush::Default)?;
    let server = lab.tailrace(Durability::Relaxed)?;
    let tailrace = server.endpoint();
    for endpoint in [&tailrace, &kafka] {
        lab.progress.say(&format!("writing the cold topic of {}", endpoint.system));
        lab.create(endpoint, TOPIC, 1)?;
        lab.prepare(endpoint, &Blast::new("produce", TOPIC, lab.scaled(RECORDS)))?;
        cool(endpoint)?;
    }
    for round in 1..=lab.rounds.min(COLD_ROUNDS_MAX) {
        for endpoint in alternated(round, &tailrace, &kafka) {
            one(lab, round, &endpoint)?;
        }
    }
    lab.delete(&kafka, TOPIC)?;
    server.discard()
}

fn one(lab: &mut Lab, round: u32, endpoint: &Endpoint) -> Result<(), String> {
    lab.open_loop(Slot { part: PART, load: "quiet", round }, endpoint, &schedule())?;
    cool(endpoint)?;
    beside(lab, Slot { part: PART, load: "cold", round }, endpoint, lab.scaled(RECORDS))?;
    // The records that were just read are now in the page cache.
    beside(lab, Slot { part: PART, load: "cached", round }, endpoint, lab.scaled(CACHED_RECORDS))?;
    cool(endpoint)
}

fn schedule() -> OpenLoop {
    OpenLoop { rate: 3000, pairs: 25, seconds: SECONDS, acks: "1" }
}

/// Runs the schedule beside a consumer that reads `records`. Keeps the consumer's figures under its own name.
fn beside(lab: &mut Lab, slot: Slot, endpoint: &Endpoint, records: u64) -> Result<(), String> {
    let judge = lab.start_open_loop(endpoint, &schedule())?;
    thread::sleep(LEAD);
    let before = proc::disk_read_bytes(endpoint.pid);
    let arguments = Blast::new("consume", TOPIC, records).arguments(&endpoint.address);
    let reader = lab.start_tool("reader", "blast-kafka", &arguments)?;
    lab.finish_open_loop(slot, endpoint.system, judge)?;
    let finished = reader.finish(READ_LIMIT)?;
    let line = finished.stdout.lines().last().unwrap_or_default().to_owned();
    let mut figures = super::super::client::parse_blast(&line).unwrap_or_default();
    let read = proc::disk_read_bytes(endpoint.pid).zip(before).map(|(after, before)| after - before);
    figures.extend(read.map(|bytes| ("disk_read_gb".to_owned(), bytes / 1e9)));
    let failed = (!finished.status.success()).then(|| format!("reader: {}", finished.status));
    lab.keep(slot, &format!("{} reader", endpoint.system), figures, failed, line)
}

/// Drops the topic from the page cache.
fn cool(endpoint: &Endpoint) -> Result<(), String> {
    let dropped = limits::segments(&endpoint.data, TOPIC).and_then(|files| limits::drop_from_cache(&files));
    dropped.map_err(|error| format!("cannot drop the topic from the page cache: {error}"))
}
