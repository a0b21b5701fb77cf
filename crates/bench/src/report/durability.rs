//! How durable a message is when it is acknowledged, as far as the client decides or knows it.
//!
//! If only the server's own configuration decides, the text says so: the protocol does not report it.

use std::fmt::Write as _;

use serde_json::Value;

use super::figures::shown;

/// Settings of clients that affect durability.
const SETTINGS: [&str; 6] =
    ["storage", "durable", "qos", "synchronous_commit", "client.acks", "topic.flush.messages"];

/// Durability in words, for the given settings.
pub(super) fn durability(result: &Value) -> String {
    let system = shown(&result["system"]);
    let set = |key: &str| result["settings"][key].as_str();
    let mut text = match system.as_str() {
        "" => return String::new(),
        "nats" | "tailrace-nats" => "core NATS keeps no messages",
        "redis" => "PUBLISH keeps no messages",
        "jetstream" if set("storage") == Some("memory") => "in memory",
        "jetstream" => "in files; when they reach the disk is the server's sync_interval",
        "rabbitmq" if set("durable") == Some("false") => "not durable",
        "rabbitmq" => "durable queue, persistent messages",
        "kafka" | "tailrace-kafka" => {
            "acknowledged by all in-sync replicas; when it reaches the disk is the topic's flush.messages"
        }
        "postgres" => "NOTIFY keeps no messages; its transaction ends as synchronous_commit says",
        "noop" | "tcp-echo" | "http" | "nng" | "zeromq" => "none: nothing is kept",
        _ => "as the server is configured, which its protocol does not report",
    }
    .to_owned();
    for key in SETTINGS {
        if let Some(value) = set(key) {
            let _ = write!(text, "; {key}={value}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_named() {
        for (result, expected) in [
            (json!({"system": "jetstream", "settings": {"storage": "memory"}}), "in memory; storage=memory"),
            (json!({"system": "rabbitmq"}), "durable queue, persistent messages"),
            (
                json!({"system": "rabbitmq", "settings": {"durable": "false", "user": "x"}}),
                "not durable; durable=false",
            ),
            (
                json!({"system": "redis-streams"}),
                "as the server is configured, which its protocol does not report",
            ),
            (json!({}), ""),
        ] {
            assert_eq!(durability(&result), expected);
        }
        let kafka = json!({"system": "kafka", "settings": {"client.acks": "1", "topic.flush.messages": "1"}});
        assert!(durability(&kafka).ends_with("; client.acks=1; topic.flush.messages=1"));
    }
}
