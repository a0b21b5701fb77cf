//! One client, 1 KB records, one partition of a relaxed topic: Kafka's default durability.

use super::super::client::Blast;
use super::super::lab::{Lab, Slot, alternated};
use super::super::servers::{Durability, Flush};

const PART: &str = "produce";
const RECORD_BYTES: u64 = 1024;

struct Load {
    name: &'static str,
    acks: &'static str,
    records: u64,
}

const LOADS: [Load; 2] = [
    Load { name: "acks1", acks: "1", records: 5_000_000 },
    Load { name: "acksall", acks: "all", records: 1_500_000 },
];

pub(super) fn run(lab: &mut Lab) -> Result<(), String> {
    let kafka = lab.kafka(Flush::Default)?;
    let server = lab.tailrace(Durability::Relaxed)?;
    let tailrace = server.endpoint();
    for round in 1..=lab.rounds {
        for load in &LOADS {
            let pair = alternated(round, &tailrace, &kafka);
            let topic = format!("{}-{round}", load.name);
            let blast = Blast { acks: load.acks, ..Blast::new("produce", &topic, lab.scaled(load.records)) };
            pair.iter().try_for_each(|endpoint| lab.create(endpoint, &topic, 1))?;
            for endpoint in &pair {
                lab.warm_free_memory(load.records * RECORD_BYTES);
                lab.blast(Slot { part: PART, load: load.name, round }, endpoint, &blast)?;
            }
            pair.iter().try_for_each(|endpoint| lab.delete(endpoint, &topic))?;
            lab.settle();
        }
    }
    server.discard()
}
