//! The envelope of answers, and the small ones.

use std::fmt::Write;

use serde::{Serialize, Serializer};

use super::info::{ConsumerInfo, StreamState};
use crate::error::ApiError;
use crate::go::{Nanos, Time};
use crate::stream::metadata::API_LEVEL;
use crate::stream::{StreamConfig, omit};

/// An answer with its type: either what was asked for, or an error and nothing else.
///
/// nats-server writes the empty fields of some answers beside an error, too, such as `"streams":null`. No
/// client looks at them. They are left out, because async-nats decides by what it finds.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer<T> {
    kind: &'static str,
    result: Result<T, ApiError>,
}

impl<T: Serialize> Answer<T> {
    /// An answer whose type is this one: see [`Request::answer_type`](super::Request::answer_type).
    #[must_use]
    pub fn new(kind: &'static str, result: Result<T, ApiError>) -> Self {
        Self { kind, result }
    }
}

#[derive(Serialize)]
struct Good<'a, T> {
    r#type: String,
    #[serde(flatten)]
    answer: &'a T,
}

#[derive(Serialize)]
struct Bad<'a> {
    r#type: String,
    error: &'a ApiError,
}

impl<T: Serialize> Serialize for Answer<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let r#type = format!("io.nats.jetstream.api.v1.{}_response", self.kind);
        match &self.result {
            Ok(answer) => Good { r#type, answer }.serialize(serializer),
            Err(error) => Bad { r#type, error }.serialize(serializer),
        }
    }
}

/// The answer to STREAM.CREATE.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Created<T> {
    /// The stream.
    #[serde(flatten)]
    pub info: T,
    /// It is there now, also if it was before.
    pub did_create: bool,
}

/// The answer to what can only succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Success {
    success: bool,
}

impl Success {
    /// It did.
    #[must_use]
    pub const fn new() -> Self {
        Self { success: true }
    }
}

impl Default for Success {
    fn default() -> Self {
        Self::new()
    }
}

/// The answer to STREAM.PURGE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Purged {
    success: bool,
    purged: u64,
}

impl Purged {
    /// So many messages are gone.
    #[must_use]
    pub const fn new(purged: u64) -> Self {
        Self { success: true, purged }
    }
}

/// The answer to CONSUMER.UNPIN, which says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unpinned {}

/// The answer to CONSUMER.PAUSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PauseAnswer {
    paused: bool,
    pause_until: Time,
    #[serde(skip_serializing_if = "omit::zero")]
    pause_remaining: Nanos,
}

impl PauseAnswer {
    /// What a pause until then means now.
    #[must_use]
    pub fn new(until: Time, now_nanos: i64) -> Self {
        let remaining = until.to_nanos().saturating_sub(now_nanos).max(0);
        Self { paused: remaining > 0, pause_until: until, pause_remaining: remaining }
    }
}

/// The answer to CONSUMER.RESET.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResetAnswer {
    /// The consumer.
    #[serde(flatten)]
    pub info: ConsumerInfo,
    /// The next sequence that it delivers.
    pub reset_seq: u64,
}

/// The answer to STREAM.SNAPSHOT.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SnapshotAnswer {
    /// The configuration.
    pub config: StreamConfig,
    /// What the stream holds.
    pub state: StreamState,
}

/// A stored message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoredMessage {
    /// Its subject.
    pub subject: String,
    /// Its sequence.
    pub seq: u64,
    /// Its whole header block.
    #[serde(serialize_with = "in_base64", skip_serializing_if = "Vec::is_empty")]
    pub hdrs: Vec<u8>,
    /// Its payload.
    #[serde(serialize_with = "in_base64", skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<u8>,
    /// When it was stored.
    pub time: Time,
}

/// The answer to STREAM.MSG.GET.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MessageAnswer {
    /// The message.
    pub message: StoredMessage,
}

fn in_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&base64(bytes))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word =
            group.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for at in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// What an account may use. -1 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the protocol")]
pub struct AccountLimits {
    pub max_memory: i64,
    pub max_storage: i64,
    pub max_streams: i64,
    pub max_consumers: i64,
    pub max_ack_pending: i64,
    pub memory_max_stream_bytes: i64,
    pub storage_max_stream_bytes: i64,
    pub max_bytes_required: bool,
}

impl Default for AccountLimits {
    /// No limits.
    fn default() -> Self {
        Self {
            max_memory: -1,
            max_storage: -1,
            max_streams: -1,
            max_consumers: -1,
            max_ack_pending: -1,
            memory_max_stream_bytes: -1,
            storage_max_stream_bytes: -1,
            max_bytes_required: false,
        }
    }
}

/// How the API is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ApiStats {
    level: i64,
    /// Requests so far.
    pub total: u64,
    /// Those that were answered with an error.
    pub errors: u64,
    /// Those that wait.
    #[serde(skip_serializing_if = "omit::zero")]
    pub inflight: u64,
}

impl ApiStats {
    /// The numbers, at the level of the API that this crate has.
    #[must_use]
    pub fn new(total: u64, errors: u64, inflight: u64) -> Self {
        Self { level: API_LEVEL, total, errors, inflight }
    }
}

/// The answer to INFO.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccountInfo {
    /// Bytes in memory.
    pub memory: u64,
    /// Bytes in files.
    pub storage: u64,
    /// Bytes of memory that streams may use.
    pub reserved_memory: u64,
    /// Bytes of files that streams may use.
    pub reserved_storage: u64,
    /// How many streams.
    pub streams: usize,
    /// How many consumers.
    pub consumers: usize,
    /// What the account may use.
    pub limits: AccountLimits,
    /// The server's domain.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// How the API is used.
    pub api: ApiStats,
}

/// The acknowledgement of a publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PubAck<'a> {
    pub(crate) stream: &'a str,
    pub(crate) domain: Option<&'a str>,
    pub(crate) sequence: u64,
    pub(crate) is_duplicate: bool,
    pub(crate) value: Option<&'a str>,
}

impl PubAck<'_> {
    /// The JSON text. Written by hand, because it is written for each message.
    pub(crate) fn to_json(&self) -> String {
        let mut json = format!("{{\"stream\":{}", text(self.stream));
        let mut push = |part: std::fmt::Arguments<'_>| {
            let written = json.write_fmt(part);
            debug_assert!(written.is_ok(), "a String takes everything");
        };
        if let Some(domain) = self.domain {
            push(format_args!(",\"domain\":{}", text(domain)));
        }
        push(format_args!(",\"seq\":{}", self.sequence));
        if self.is_duplicate {
            push(format_args!(",\"duplicate\": true"));
        }
        if let Some(value) = self.value {
            push(format_args!(",\"val\":{}", text(value)));
        }
        json.push('}');
        json
    }
}

fn text(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn json(value: &impl Serialize) -> String {
        serde_json::to_string(value).unwrap()
    }

    #[test]
    fn answers_have_a_type_and_either_an_error_or_the_rest() {
        let good = Answer::new("stream_delete", Ok(Success::new()));
        assert_eq!(
            json(&good),
            r#"{"type":"io.nats.jetstream.api.v1.stream_delete_response","success":true}"#
        );
        let bad: Answer<Success> = Answer::new("stream_delete", Err(ErrorKind::StreamNotFound.into()));
        let wanted = concat!(
            r#"{"type":"io.nats.jetstream.api.v1.stream_delete_response","error":"#,
            r#"{"code":404,"err_code":10059,"description":"stream not found"}}"#
        );
        assert_eq!(json(&bad), wanted);
        let purged = Answer::new("stream_purge", Ok(Purged::new(0)));
        assert_eq!(
            json(&purged),
            r#"{"type":"io.nats.jetstream.api.v1.stream_purge_response","success":true,"purged":0}"#
        );
    }

    #[test]
    fn bytes_are_written_in_base64() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }

    #[test]
    fn a_pause_says_how_long_it_lasts() {
        let until = Time::from_nanos(5_000);
        let wanted = r#"{"paused":true,"pause_until":"1970-01-01T00:00:00.000005Z","pause_remaining":4000}"#;
        assert_eq!(json(&PauseAnswer::new(until, 1_000)), wanted);
        let wanted = r#"{"paused":false,"pause_until":"0001-01-01T00:00:00Z"}"#;
        assert_eq!(json(&PauseAnswer::new(Time::ZERO, 1_000)), wanted);
    }

    #[test]
    fn publish_acks_are_written_as_nats_server_writes_them() {
        let ack = PubAck { stream: "S", domain: None, sequence: 3, is_duplicate: false, value: None };
        assert_eq!(ack.to_json(), r#"{"stream":"S","seq":3}"#);
        let ack = PubAck { domain: Some("d"), is_duplicate: true, ..ack };
        assert_eq!(ack.to_json(), r#"{"stream":"S","domain":"d","seq":3,"duplicate": true}"#);
    }
}
