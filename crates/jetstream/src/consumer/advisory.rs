//! Advisories and metrics of a consumer.

use serde_json::{Map, Value, json};

use super::names::Names;
use crate::go::Time;

/// Something that happened, published as a core message under `$JS.EVENT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advisory {
    /// A message was delivered as often as allowed, and not acknowledged.
    MaxDeliver {
        /// The message.
        stream_seq: u64,
        /// How often it was delivered.
        deliveries: u32,
    },
    /// A client refused a message for now.
    Nak(Refused),
    /// A message will not be delivered again: a client said so, or it was deleted.
    Terminated {
        /// Which.
        message: Refused,
        /// Why. Empty: not told.
        reason: String,
    },
    /// A sample of acknowledgements.
    Ack {
        /// Which.
        message: Refused,
        /// How long the client took, in ns.
        ack_time_ns: i64,
    },
    /// A client has got the pin.
    Pinned {
        /// Its group.
        group: String,
        /// The pin.
        pin: String,
    },
    /// A client has lost the pin.
    Unpinned {
        /// Its group.
        group: String,
        /// True if by request, false if by timeout.
        admin: bool,
    },
    /// The consumer was paused, or goes on.
    Pause {
        /// Which of the two.
        paused: bool,
        /// Until when, in ns. `None`: it is not.
        until_ns: Option<i64>,
    },
}

/// A delivery that an advisory tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The delivery's number.
    pub consumer_seq: u64,
    /// The message.
    pub stream_seq: u64,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// What all advisories begin and end with.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// A unique id of 22 characters.
    pub id: &'a str,
    /// The time, in ns.
    pub now_ns: i64,
    /// The JetStream domain.
    pub domain: Option<&'a str>,
    /// The account. Only advisories on pins name it.
    pub account: &'a str,
}

impl Advisory {
    /// Returns the subject after `$JS.EVENT.` and before the names, and the type.
    fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Self::MaxDeliver { .. } => ("ADVISORY.CONSUMER.MAX_DELIVERIES", "advisory.v1.max_deliver"),
            Self::Nak(_) => ("ADVISORY.CONSUMER.MSG_NAKED", "advisory.v1.nak"),
            Self::Terminated { .. } => ("ADVISORY.CONSUMER.MSG_TERMINATED", "advisory.v1.terminated"),
            Self::Ack { .. } => ("METRIC.CONSUMER.ACK", "metric.v1.consumer_ack"),
            Self::Pinned { .. } => ("ADVISORY.CONSUMER.PINNED", "advisory.v1.consumer_group_pinned"),
            Self::Unpinned { .. } => ("ADVISORY.CONSUMER.UNPINNED", "advisory.v1.consumer_group_unpinned"),
            Self::Pause { .. } => ("ADVISORY.CONSUMER.PAUSE", "advisory.v1.consumer_pause"),
        }
    }

    /// Returns the subject to publish to.
    pub fn subject(&self, names: &Names) -> String {
        format!("$JS.EVENT.{}.{}.{}", self.kind().0, names.stream, names.consumer)
    }

    /// Returns the body.
    pub fn json(&self, names: &Names, envelope: &Envelope<'_>) -> String {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| {
            fields.insert(name.to_owned(), value);
        };
        put("type", format!("io.nats.jetstream.{}", self.kind().1).into());
        put("id", envelope.id.into());
        put("timestamp", Time::from_nanos(envelope.now_ns).to_string().into());
        put("stream", (*names.stream).into());
        put("consumer", (*names.consumer).into());
        if let Some(domain) = envelope.domain {
            put("domain", domain.into());
        }
        if matches!(self, Self::Pinned { .. } | Self::Unpinned { .. }) {
            put("account", envelope.account.into());
        }
        fields.extend(self.fields());
        Value::Object(fields).to_string()
    }

    fn fields(&self) -> Map<String, Value> {
        let value = match self {
            Self::MaxDeliver { stream_seq, deliveries } => {
                json!({"stream_seq": stream_seq, "deliveries": deliveries})
            }
            Self::Nak(message) => message.json(),
            Self::Terminated { message, reason } => {
                let mut value = message.json();
                if let (false, Some(fields)) = (reason.is_empty(), value.as_object_mut()) {
                    fields.insert("reason".into(), reason.as_str().into());
                }
                value
            }
            Self::Ack { message, ack_time_ns } => {
                let mut value = message.json();
                if let Some(fields) = value.as_object_mut() {
                    fields.insert("ack_time".into(), (*ack_time_ns).into());
                }
                value
            }
            Self::Pinned { group, pin } => json!({"group": group, "pinned_id": pin}),
            Self::Unpinned { group, admin } => {
                json!({"group": group, "reason": if *admin { "admin" } else { "timeout" }})
            }
            Self::Pause { paused, until_ns } => {
                let until = until_ns.map_or(Time::ZERO, Time::from_nanos);
                json!({"paused": paused, "pause_until": until.to_string()})
            }
        };
        match value {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}

impl Refused {
    fn json(self) -> Value {
        let Self { consumer_seq, stream_seq, deliveries } = self;
        json!({"consumer_seq": consumer_seq, "stream_seq": stream_seq, "deliveries": deliveries})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advisories_have_the_subjects_and_fields_of_nats_server() {
        let names = Names { stream: "S".into(), consumer: "C".into() };
        let envelope = Envelope { id: "id", now_ns: 0, domain: Some("hub"), account: "$G" };
        let message = Refused { consumer_seq: 7, stream_seq: 5, deliveries: 2 };
        let advisory = Advisory::Terminated { message, reason: "bad".into() };
        assert_eq!(advisory.subject(&names), "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.C");
        let body: Value = serde_json::from_str(&advisory.json(&names, &envelope)).expect("it is JSON");
        let expected = json!({
            "type": "io.nats.jetstream.advisory.v1.terminated", "id": "id", "domain": "hub",
            "timestamp": "1970-01-01T00:00:00Z", "stream": "S", "consumer": "C",
            "consumer_seq": 7, "stream_seq": 5, "deliveries": 2, "reason": "bad",
        });
        assert_eq!(body, expected);
        let metric = Advisory::Ack { message, ack_time_ns: 3 };
        assert_eq!(metric.subject(&names), "$JS.EVENT.METRIC.CONSUMER.ACK.S.C");
        let unpinned = Advisory::Unpinned { group: "g".into(), admin: true };
        let body: Value = serde_json::from_str(&unpinned.json(&names, &envelope)).expect("it is JSON");
        assert_eq!((&body["account"], &body["reason"]), (&json!("$G"), &json!("admin")));
        let pause = Advisory::Pause { paused: false, until_ns: None };
        let body: Value = serde_json::from_str(&pause.json(&names, &envelope)).expect("it is JSON");
        assert_eq!(body["pause_until"], "0001-01-01T00:00:00Z");
    }
}
