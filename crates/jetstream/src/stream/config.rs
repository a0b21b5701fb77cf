//! The fields of a stream's configuration, in the order in which nats-server writes them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::omit;
use super::source::{Source, SubjectTransform};
use crate::go::{Nanos, quote};
use crate::json::{Abort, Cursor, Decode, Report, can_not_unmarshal, fields, raw_text, words};

/// Which messages a stream keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Retention {
    /// Until a limit is reached.
    #[default]
    Limits,
    /// As long as a consumer has not acknowledged them.
    Interest,
    /// Until they are acknowledged.
    WorkQueue,
}

words! { Retention; can_not_unmarshal; "limits" Limits "interest" Interest "workqueue" WorkQueue }

/// Which messages go when a limit is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Discard {
    /// The oldest ones.
    #[default]
    Old,
    /// New ones are refused.
    New,
}

impl Decode for Discard {
    /// The only words that may be written in capitals.
    fn decode(&mut self, _: &'static str, cursor: &mut Cursor<'_>, _: &mut Report) -> Result<(), Abort> {
        let raw = cursor.raw();
        *self = match raw.to_ascii_lowercase().as_slice() {
            b"\"old\"" => Self::Old,
            b"\"new\"" => Self::New,
            _ => return Err(Abort(can_not_unmarshal(raw))),
        };
        Ok(())
    }
}

/// Where messages are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// On disk.
    #[default]
    File,
    /// In memory.
    Memory,
}

words! { Storage; can_not_unmarshal; "memory" Memory "file" File }

/// How stored messages are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// S2, or what we have in its place.
    S2,
}

impl Decode for Compression {
    fn decode(&mut self, _: &'static str, cursor: &mut Cursor<'_>, report: &mut Report) -> Result<(), Abort> {
        let raw = cursor.raw();
        let found = match raw.first() {
            Some(b'"' | b'n') => None,
            Some(b'{') => Some("object"),
            Some(b'[') => Some("array"),
            Some(b't' | b'f') => Some("bool"),
            _ => Some("number"),
        };
        if let Some(found) = found {
            return Err(Abort(report.mismatch_text(found, "string")));
        }
        *self = match raw_text(raw).as_str() {
            "s2" => Self::S2,
            "none" => Self::None,
            _ => return Err(Abort("unknown compression algorithm".to_owned())),
        };
        Ok(())
    }
}

/// Whether an acknowledgement waits for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PersistMode {
    /// It does.
    #[default]
    Default,
    /// It does not.
    Async,
}

words! {
    PersistMode; |raw| format!("can not unmarshal {}", quote(raw));
    "default" Default "" Default "async" Async
}

/// Which servers may hold a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// The cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// Tags that a server must have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The leader that is wished for. Only for stepping down.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preferred: String,
}

fields! {
    Placement as "Placement";
    "cluster" "string" cluster
    "tags" "[]string" tags
    "preferred" "string" preferred
}

/// Where stored messages are published again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Republish {
    /// Which subjects.
    #[serde(rename = "src", skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// How they are written.
    #[serde(rename = "dest")]
    pub destination: String,
    /// Without their payload.
    #[serde(skip_serializing_if = "omit::zero")]
    pub headers_only: bool,
}

fields! {
    Republish as "RePublish";
    "src" "string" source
    "dest" "string" destination
    "headers_only" "bool" headers_only
}

/// Bounds and defaults for a stream's consumers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConsumerLimits {
    /// The largest inactive threshold.
    #[serde(skip_serializing_if = "omit::zero")]
    pub inactive_threshold: Nanos,
    /// The most messages that may wait for acknowledgements.
    #[serde(skip_serializing_if = "omit::zero")]
    pub max_ack_pending: i64,
}

fields! {
    ConsumerLimits as "StreamConsumerLimits";
    "inactive_threshold" "time.Duration" inactive_threshold
    "max_ack_pending" "int" max_ack_pending
}

/// A stream's configuration. Its JSON form is nats-server's: the same order, the same fields left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the protocol, described where they are checked")]
pub struct StreamConfig {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    pub retention: Retention,
    pub max_consumers: i64,
    pub max_msgs: i64,
    pub max_bytes: i64,
    pub max_age: Nanos,
    pub max_msgs_per_subject: i64,
    #[serde(skip_serializing_if = "omit::zero")]
    pub max_msg_size: i32,
    pub discard: Discard,
    pub storage: Storage,
    pub num_replicas: i64,
    #[serde(skip_serializing_if = "omit::zero")]
    pub no_ack: bool,
    #[serde(skip_serializing_if = "omit::zero")]
    pub duplicate_window: Nanos,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror: Option<Source>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Option<Source>>,
    pub compression: Compression,
    #[serde(skip_serializing_if = "omit::zero")]
    pub first_seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_transform: Option<SubjectTransform>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub republish: Option<Republish>,
    pub allow_direct: bool,
    pub mirror_direct: bool,
    #[serde(skip_serializing_if = "omit::zero")]
    pub discard_new_per_subject: bool,
    pub sealed: bool,
    pub deny_delete: bool,
    pub deny_purge: bool,
    pub allow_rollup_hdrs: bool,
    pub consumer_limits: ConsumerLimits,
    pub allow_msg_ttl: bool,
    #[serde(skip_serializing_if = "omit::zero")]
    pub subject_delete_marker_ttl: Nanos,
    #[serde(skip_serializing_if = "omit::zero")]
    pub allow_msg_counter: bool,
    #[serde(skip_serializing_if = "omit::zero")]
    pub allow_atomic: bool,
    #[serde(skip_serializing_if = "omit::zero")]
    pub allow_msg_schedules: bool,
    #[serde(skip_serializing_if = "omit::zero")]
    pub persist_mode: PersistMode,
    #[serde(skip_serializing_if = "omit::zero")]
    pub allow_batched: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

fields! {
    StreamConfig as "StreamConfig";
    "name" "string" name
    "description" "string" description
    "subjects" "[]string" subjects
    "retention" "server.RetentionPolicy" retention
    "max_consumers" "int" max_consumers
    "max_msgs" "int64" max_msgs
    "max_bytes" "int64" max_bytes
    "max_age" "time.Duration" max_age
    "max_msgs_per_subject" "int64" max_msgs_per_subject
    "max_msg_size" "int32" max_msg_size
    "discard" "server.DiscardPolicy" discard
    "storage" "server.StorageType" storage
    "num_replicas" "int" num_replicas
    "no_ack" "bool" no_ack
    "duplicate_window" "time.Duration" duplicate_window
    "placement" "*server.Placement" placement
    "mirror" "*server.StreamSource" mirror
    "sources" "[]*server.StreamSource" sources
    "compression" "server.StoreCompression" compression
    "first_seq" "uint64" first_seq
    "subject_transform" "*server.SubjectTransformConfig" subject_transform
    "republish" "*server.RePublish" republish
    "allow_direct" "bool" allow_direct
    "mirror_direct" "bool" mirror_direct
    "discard_new_per_subject" "bool" discard_new_per_subject
    "sealed" "bool" sealed
    "deny_delete" "bool" deny_delete
    "deny_purge" "bool" deny_purge
    "allow_rollup_hdrs" "bool" allow_rollup_hdrs
    "consumer_limits" "server.StreamConsumerLimits" consumer_limits
    "allow_msg_ttl" "bool" allow_msg_ttl
    "subject_delete_marker_ttl" "time.Duration" subject_delete_marker_ttl
    "allow_msg_counter" "bool" allow_msg_counter
    "allow_atomic" "bool" allow_atomic
    "allow_msg_schedules" "bool" allow_msg_schedules
    "persist_mode" "server.PersistModeType" persist_mode
    "allow_batched" "bool" allow_batched
    "metadata" "map[string]string" metadata
}
