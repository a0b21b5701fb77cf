//! The systems that can be measured, by name.

use crate::error::BenchError;

/// A kind of system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System {
    /// Its name on the command line.
    pub name: &'static str,
    /// The default address; `None` if it needs no address.
    pub default_address: Option<&'static str>,
    /// What is timed, for display.
    pub description: &'static str,
}

/// All systems that this build can measure.
pub const SYSTEMS: &[System] = &[
    System { name: "noop", default_address: None, description: "nothing at all: the harness's own floor" },
    System {
        name: "tcp-echo",
        default_address: None,
        description: "bare TCP; without an address a server of its own",
    },
    System {
        name: "http",
        default_address: None,
        description: "HTTP/1.1 POST; without an address a server of its own",
    },
    System {
        name: "nats",
        default_address: Some("127.0.0.1:4222"),
        description: "NATS core, publish to receipt",
    },
    System {
        name: "jetstream",
        default_address: Some("127.0.0.1:4222"),
        description: "JetStream, publish to acknowledgement and to receipt",
    },
    System { name: "redis", default_address: Some("127.0.0.1:6379"), description: "Redis publish/subscribe" },
    System { name: "redis-streams", default_address: Some("127.0.0.1:6379"), description: "Redis streams" },
    System {
        name: "redis-lists",
        default_address: Some("127.0.0.1:6379"),
        description: "Redis lists, LPUSH to BRPOP",
    },
    System {
        name: "rabbitmq",
        default_address: Some("127.0.0.1:5672"),
        description: "RabbitMQ over AMQP 0.9.1, publish to confirm and to receipt",
    },
    System { name: "mqtt", default_address: Some("127.0.0.1:1883"), description: "MQTT 3.1.1, QoS 0 or 1" },
    System {
        name: "stomp",
        default_address: Some("127.0.0.1:61613"),
        description: "STOMP 1.2, as ActiveMQ speaks it",
    },
    System {
        name: "postgres",
        default_address: Some("127.0.0.1:5432"),
        description: "PostgreSQL LISTEN/NOTIFY, publish to commit and to receipt",
    },
    System {
        name: "nng",
        default_address: None,
        description: "nng and nanomsg over TCP, both ends in the harness: no broker",
    },
    System {
        name: "zeromq",
        default_address: None,
        description: "ZeroMQ over TCP, both ends in the harness: no broker",
    },
    System {
        name: "nsq",
        default_address: Some("127.0.0.1:4150"),
        description: "NSQ, publish to acknowledgement and to receipt",
    },
    System {
        name: "kafka",
        default_address: Some("127.0.0.1:9092"),
        description: "Kafka, publish to acknowledgement and to receipt",
    },
    System {
        name: "kafka-librdkafka",
        default_address: Some("127.0.0.1:9092"),
        description: "Kafka through librdkafka, only in builds with the feature bench-kafka",
    },
    System {
        name: "tailrace-kafka",
        default_address: Some("127.0.0.1:9092"),
        description: "tailrace, measured as kafka is",
    },
    System {
        name: "tailrace-nats",
        default_address: Some("127.0.0.1:4222"),
        description: "tailrace, measured as nats is",
    },
];

/// Finds the system of this name.
///
/// # Errors
/// There is no such system.
pub(crate) fn find(name: &str) -> Result<&'static System, BenchError> {
    SYSTEMS.iter().find(|system| system.name == name).ok_or_else(|| {
        let known: Vec<_> = SYSTEMS.iter().map(|system| system.name).collect();
        BenchError::UnknownSystem { name: name.to_owned(), known: known.join(", ") }
    })
}
