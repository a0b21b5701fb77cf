//! Open loop, 1 KB, publish to receipt: a low rate over one pair of connections, a high rate over 25. The
//! bare echo is the floor.

use super::super::client::OpenLoop;
use super::super::lab::{Lab, Slot, alternated};
use super::super::servers::{self, Durability, Flush};

const PART: &str = "latency";
const SECONDS: u32 = 6;
const QUICK_SECONDS: u32 = 3;

const LOADS: [(&str, OpenLoop); 2] = [
    ("3k", OpenLoop { rate: 3000, pairs: 1, seconds: SECONDS, acks: "1" }),
    ("20k", OpenLoop { rate: 20_000, pairs: 25, seconds: SECONDS, acks: "1" }),
];

pub(super) fn run(lab: &mut Lab) -> Result<(), String> {
    let kafka = lab.kafka(Flush::Default)?;
    let server = lab.tailrace(Durability::Relaxed)?;
    let tailrace = server.endpoint();
    let floor = servers::echo(&lab.peers, &lab.scratch)?;
    let echo = floor.endpoint();
    for round in 1..=lab.rounds {
        for (load, open) in LOADS {
            let open = OpenLoop { seconds: if lab.quick { QUICK_SECONDS } else { SECONDS }, ..open };
            let slot = Slot { part: PART, load, round };
            lab.open_loop(slot, &echo, &open)?;
            for endpoint in alternated(round, &tailrace, &kafka) {
                lab.open_loop(slot, &endpoint, &open)?;
            }
        }
    }
    floor.discard()?;
    server.discard()
}
