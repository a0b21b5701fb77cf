//! One consumer reads 1 KB records that are in the page cache. For comparison, a bare sendfile loop sends the
//! same segments.

use super::super::client::Blast;
use super::super::lab::{Lab, Slot, alternated};
use super::super::limits;
use super::super::sample::Figures;
use super::super::servers::{Durability, Endpoint, Flush};

const PART: &str = "consume";
const LOAD: &str = "cached";
const TOPIC: &str = "consume";
/// 3 GB in each server: both fit into the page cache of a machine with 16 GB.
const RECORDS: u64 = 3_000_000;

pub(super) fn run(lab: &mut Lab) -> Result<(), String> {
    let kafka = lab.kafka(Flush::Default)?;
    let server = lab.tailrace(Durability::Relaxed)?;
    let tailrace = server.endpoint();
    let records = lab.scaled(RECORDS);
    let read = Blast::new("consume", TOPIC, records);
    for endpoint in [&tailrace, &kafka] {
        lab.create(endpoint, TOPIC, 1)?;
        lab.prepare(endpoint, &Blast::new("produce", TOPIC, records))?;
    }
    lab.settle();
    // In every system, the first read after a write is slower than the following ones.
    [&tailrace, &kafka].into_iter().try_for_each(|endpoint| lab.prepare(endpoint, &read))?;
    for round in 1..=lab.rounds {
        for endpoint in alternated(round, &tailrace, &kafka) {
            lab.blast(Slot { part: PART, load: LOAD, round }, &endpoint, &read)?;
        }
        sendfile(lab, round, &tailrace)?;
    }
    lab.delete(&kafka, TOPIC)?;
    server.discard()
}

fn sendfile(lab: &mut Lab, round: u32, tailrace: &Endpoint) -> Result<(), String> {
    let sent = limits::segments(&tailrace.data, TOPIC).and_then(|files| limits::send_files(&files));
    let sent = sent.map_err(|error| format!("sendfile: {error}"))?;
    let gigabytes = sent.bytes as f64 / 1e9;
    let named = [("server_cpu_s_per_gb", sent.cpu_s / gigabytes), ("gb_per_s", gigabytes / sent.seconds)];
    let figures: Figures = named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    lab.keep(Slot { part: PART, load: LOAD, round }, "sendfile", figures, None, String::new())
}
