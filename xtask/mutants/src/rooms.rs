//! The crates where a bug can lose data, and the tests that should notice it.

/// A crate with mutants.
pub(crate) struct Room {
    pub(crate) name: &'static str,
    /// Where it lies in the workspace.
    pub(crate) folder: &'static str,
    /// The packages whose tests judge its mutants, in this order.
    pub(crate) judges: &'static [&'static str],
    /// The simulators that play what the tests do not notice, in this order.
    pub(crate) simulators: &'static [&'static str],
}

impl Room {
    pub(crate) fn package(&self) -> String {
        format!("tailrace-{}", self.name)
    }
}

pub(crate) const ROOMS: [Room; 5] = [
    Room {
        name: "log",
        folder: "crates/log",
        judges: &["tailrace-log", "tailrace-replication", "tailrace-node", "tailrace-sim"],
        simulators: &["group", "nodes"],
    },
    Room {
        name: "replication",
        folder: "crates/replication",
        judges: &["tailrace-replication", "tailrace-node", "tailrace-sim"],
        simulators: &["group", "nodes"],
    },
    Room {
        name: "coordination",
        folder: "crates/coordination",
        judges: &["tailrace-coordination", "tailrace-node", "tailrace-sim"],
        simulators: &["nodes"],
    },
    Room {
        name: "metadata",
        folder: "crates/metadata",
        judges: &["tailrace-metadata", "tailrace-coordination", "tailrace-node", "tailrace-sim"],
        simulators: &["nodes"],
    },
    Room {
        name: "node",
        folder: "crates/node",
        judges: &["tailrace-node", "tailrace-sim"],
        simulators: &["nodes"],
    },
];

pub(crate) fn of_name(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.name == name)
}

/// A feature that a package's tests need.
pub(crate) fn features(package: &str) -> Option<&'static str> {
    (package == "tailrace-replication").then_some("tailrace-replication/raft")
}

/// The test programs of a package that judge. Other programs of the simulator only test the simulator.
pub(crate) fn is_judge(package: &str, program: &str) -> bool {
    package != "tailrace-sim" || program == "seeded"
}
