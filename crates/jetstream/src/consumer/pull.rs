//! The body of a pull request.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::output::BadRequest;
use crate::json::syntax_fault;

/// What a client asks for. Numbers that are missing are 0, as in nats-server: a JSON request without `batch`
/// gets one message, and says that 0 are unserved when it times out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PullBody {
    pub(super) batch: i64,
    pub(super) expires_ns: i64,
    pub(super) max_bytes: i64,
    pub(super) no_wait: bool,
    pub(super) heartbeat_ns: i64,
    pub(super) group: String,
    pub(super) min_pending: i64,
    pub(super) min_ack_pending: i64,
    pub(super) id: String,
    pub(super) priority: i64,
    /// False for a bare number or an empty body: these say nothing of priority groups.
    pub(super) is_json: bool,
}

impl PullBody {
    /// Reads JSON, a bare number, or nothing. Anything else that is not JSON asks for one message.
    pub(super) fn parse(body: &[u8]) -> Result<Self, BadRequest> {
        let body = body.trim_ascii();
        if body.first() == Some(&b'{') {
            if let Some(fault) = syntax_fault(body) {
                return Err(BadRequest::Json(fault));
            }
            let parsed: Self =
                serde_json::from_slice(body).map_err(|error| BadRequest::Json(error.to_string()))?;
            // Twice the heartbeat must fit. A request that never expires cannot have heartbeats.
            if parsed.heartbeat_ns > 0 && parsed.heartbeat_ns.saturating_mul(2) > parsed.expires_ns {
                return Err(BadRequest::HeartbeatTooLarge);
            }
            return Ok(Self { is_json: true, ..parsed });
        }
        let number = str::from_utf8(body).ok().and_then(|text| text.parse().ok());
        Ok(Self { batch: number.unwrap_or(1), ..Self::default() })
    }
}

impl<'de> Deserialize<'de> for PullBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

/// Takes fields without regard to case, and leaves out unknown ones, as Go does.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = PullBody;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pull request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PullBody, A::Error> {
        let mut body = PullBody::default();
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            match name.to_ascii_lowercase().as_str() {
                "batch" => set(&mut body.batch, &mut map)?,
                "expires" => set(&mut body.expires_ns, &mut map)?,
                "max_bytes" => set(&mut body.max_bytes, &mut map)?,
                "no_wait" => set(&mut body.no_wait, &mut map)?,
                "idle_heartbeat" => set(&mut body.heartbeat_ns, &mut map)?,
                "group" => set(&mut body.group, &mut map)?,
                "min_pending" => set(&mut body.min_pending, &mut map)?,
                "min_ack_pending" => set(&mut body.min_ack_pending, &mut map)?,
                "id" => set(&mut body.id, &mut map)?,
                "priority" => set(&mut body.priority, &mut map)?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(body)
    }
}

/// Reads a value. `null` changes nothing.
fn set<'de, T: Deserialize<'de>, A: MapAccess<'de>>(field: &mut T, map: &mut A) -> Result<(), A::Error> {
    if let Some(value) = map.next_value::<Option<T>>()? {
        *field = value;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(body: &[u8]) -> i64 {
        PullBody::parse(body).expect("it is accepted").batch
    }

    #[test]
    fn a_request_may_be_empty_a_number_or_json() {
        assert_eq!(batch(b""), 1);
        assert_eq!(batch(b"  "), 1);
        assert_eq!(batch(b"25"), 25);
        assert_eq!(batch(b" 7 "), 7);
        assert_eq!(batch(b"many"), 1);
        assert_eq!(batch(b"{}"), 0);
        assert_eq!(batch(br#"{"batch":3,"unknown":{"a":[1]},"Batch":4}"#), 4);
        assert_eq!(batch(br#"{"batch":3,"batch":null}"#), 3);
    }

    #[test]
    fn all_fields_are_read() {
        let body = br#"{"batch":1,"expires":10,"no_wait":true,"max_bytes":3,"idle_heartbeat":5,"group":"g",
            "min_pending":6,"min_ack_pending":7,"id":"i","priority":8}"#;
        let expected = PullBody {
            batch: 1,
            expires_ns: 10,
            max_bytes: 3,
            no_wait: true,
            heartbeat_ns: 5,
            group: "g".into(),
            min_pending: 6,
            min_ack_pending: 7,
            id: "i".into(),
            priority: 8,
            is_json: true,
        };
        assert_eq!(PullBody::parse(body), Ok(expected));
    }

    #[test]
    fn a_heartbeat_that_does_not_fit_twice_is_refused() {
        assert!(PullBody::parse(br#"{"expires":10,"idle_heartbeat":5}"#).is_ok());
        for body in [r#"{"expires":9,"idle_heartbeat":5}"#, r#"{"idle_heartbeat":1}"#] {
            assert_eq!(PullBody::parse(body.as_bytes()), Err(BadRequest::HeartbeatTooLarge));
        }
    }

    #[test]
    fn damaged_json_is_refused() {
        for body in [r#"{"batch":"#, r#"{"batch":"a"}"#, r#"{"batch":1.5}"#, "{} x", "{\"a\":\"\u{1}\"}"] {
            let refused = PullBody::parse(body.as_bytes());
            assert!(matches!(refused, Err(BadRequest::Json(_))), "{body}: {refused:?}");
        }
    }
}
