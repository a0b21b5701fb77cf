//! Which end of a connection a requester is: both, or one of two on two machines.

use serde::{Deserialize, Serialize};

use crate::error::RequesterError;

/// Systems whose publisher and subscriber share nothing but the system, so that they can be on two machines.
const APART: [&str; 13] = [
    "nats",
    "tailrace-nats",
    "jetstream",
    "redis",
    "redis-streams",
    "redis-lists",
    "rabbitmq",
    "mqtt",
    "stomp",
    "postgres",
    "nsq",
    "kafka",
    "tailrace-kafka",
];

/// The role of a requester.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Publishes and receives.
    #[default]
    Both,
    /// Publishes, and receives acknowledgements.
    Publisher,
    /// Receives.
    Subscriber,
}

impl Role {
    /// Reports whether it has a connection to publish on.
    pub(crate) fn publishes(self) -> bool {
        self != Self::Subscriber
    }

    /// Reports whether it has a connection to receive on, and creates and removes what the system needs for
    /// that.
    pub(crate) fn subscribes(self) -> bool {
        self != Self::Publisher
    }
}

pub(super) fn check(system: &str, role: Role) -> Result<(), RequesterError> {
    if role == Role::Both || APART.contains(&system) {
        return Ok(());
    }
    Err(RequesterError::Unsupported(format!(
        "publisher and subscriber of {system} cannot be apart: expected one of {}",
        APART.join(", ")
    )))
}
