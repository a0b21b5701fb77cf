//! Open loop, 3,000/s of 1 KB over 25 connections, acks=all. Both servers sync before they acknowledge.

use super::super::client::OpenLoop;
use super::super::lab::{Lab, Slot, alternated};
use super::super::servers::{Durability, Flush};

const SLOT: (&str, &str) = ("fsync", "3k");
const SECONDS: u32 = 6;
const QUICK_SECONDS: u32 = 3;

pub(super) fn run(lab: &mut Lab) -> Result<(), String> {
    let kafka = lab.kafka(Flush::EveryMessage)?;
    let server = lab.tailrace(Durability::Strict)?;
    let tailrace = server.endpoint();
    let seconds = if lab.quick { QUICK_SECONDS } else { SECONDS };
    let open = OpenLoop { rate: 3000, pairs: 25, seconds, acks: "all" };
    for round in 1..=lab.rounds {
        let (part, load) = SLOT;
        for endpoint in alternated(round, &tailrace, &kafka) {
            lab.open_loop(Slot { part, load, round }, &endpoint, &open)?;
        }
    }
    server.discard()
}
