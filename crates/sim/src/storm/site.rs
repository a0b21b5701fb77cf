//! The computers of a run, and the nodes on them.

use std::collections::BTreeMap;

use crate::computer::Computer;
use crate::rng::Rng;
use crate::world::{Machine, Network, Universe};

/// The topic that is written to.
pub(super) const TOPIC: &str = "storm";

/// The number of the computer of the clients.
const CLIENT: u8 = 100;

/// Computers in their universe.
pub(super) struct Site {
    pub(super) universe: Universe,
    pub(super) network: Network,
    pub(super) computers: Vec<Computer>,
    /// One for clients. It stays on.
    pub(super) client: &'static Machine,
    /// How often the node of each was started.
    pub(super) starts: Vec<u32>,
}

impl Site {
    pub(super) fn new(nodes: u8, rng: &mut Rng) -> Self {
        let universe = Universe::new(rng.next_u64());
        let network = Network::new(&universe);
        let one = |number| Computer::new(&network, number, rng.next_u64());
        let computers: Vec<_> = (1..=nodes).map(one).collect();
        let (client, starts) = (network.switch_on(CLIENT), vec![0; computers.len()]);
        Self { universe, network, computers, client, starts }
    }

    /// Starts the node of a computer.
    pub(super) fn boot(&mut self, index: usize) {
        let number = u8::try_from(index + 1).expect("there are few");
        self.starts[index] += 1;
        self.computers[index].boot(settings(number));
    }
}

/// Where Kafka clients reach a computer.
pub(super) fn kafka_address(number: u8) -> String {
    format!("10.0.0.{number}:9092")
}

/// Where NATS clients reach a computer.
pub(super) fn nats_address(number: u8) -> String {
    format!("10.0.0.{number}:4222")
}

fn settings(number: u8) -> BTreeMap<String, String> {
    let mut settings = vec![
        ("data.dir", "/data".to_owned()),
        ("node.id", number.to_string()),
        ("cluster.listen", format!("10.0.0.{number}:7000")),
        ("kafka", kafka_address(number)),
        ("nats", nats_address(number)),
        ("http", format!("10.0.0.{number}:8222")),
    ];
    if number > 1 {
        settings.push(("tailrace.cluster.seeds", "10.0.0.1:7000".to_owned()));
    }
    settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
