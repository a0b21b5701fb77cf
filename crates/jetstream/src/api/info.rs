//! What answers tell of streams and consumers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::page::Page;
use crate::consumer_config::ConsumerConfig;
use crate::error::ApiError;
use crate::go::{Nanos, Time};
use crate::limits::SUBJECTS_PAGE;
use crate::stream::omit;
use crate::stream::{ExternalStream, StreamConfig, SubjectTransform};

/// Messages that the server has lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LostMessages {
    /// Their sequences.
    #[serde(rename = "msgs")]
    pub sequences: Vec<u64>,
    /// Their bytes.
    pub bytes: u64,
}

/// What a stream holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamState {
    /// How many messages.
    pub messages: u64,
    /// Their bytes, as nats-server counts them.
    pub bytes: u64,
    /// The first sequence; one above the last if there is none.
    pub first_seq: u64,
    /// Its time, or Go's zero time.
    pub first_ts: Time,
    /// The last sequence that was given. It never falls.
    pub last_seq: u64,
    /// Its time, or Go's zero time.
    pub last_ts: Time,
    /// How many subjects.
    #[serde(skip_serializing_if = "omit::zero")]
    pub num_subjects: u64,
    /// Messages of each subject of the page that was asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub subjects: BTreeMap<String, u64>,
    /// How many sequences are missing between the first and the last.
    #[serde(skip_serializing_if = "omit::zero")]
    pub num_deleted: u64,
    /// Which ones, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<u64>,
    /// What was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostMessages>,
    /// How many consumers.
    pub consumer_count: usize,
}

/// Another server of a stream's group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PeerInfo {
    /// The server's name.
    pub name: String,
    /// It has everything.
    pub current: bool,
    /// It was not heard of lately.
    #[serde(skip_serializing_if = "omit::zero")]
    pub offline: bool,
    /// How long ago it was heard of.
    pub active: Nanos,
    /// How many entries it lacks.
    #[serde(skip_serializing_if = "omit::zero")]
    pub lag: u64,
    /// Eight characters that stand for it.
    pub peer: String,
    /// It does not belong to the group yet, or is leaving.
    #[serde(skip_serializing_if = "omit::zero")]
    pub pending: bool,
}

/// Which servers hold a stream or consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClusterInfo {
    /// The cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub raft_group: String,
    /// The leader. The command-line client takes a stream without one as down.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub leader: String,
    /// Since when it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_since: Option<Time>,
    /// The others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<PeerInfo>,
}

/// How far a mirror or a source is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SourceInfo {
    /// The origin.
    pub name: String,
    /// Where that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalStream>,
    /// How many messages are missing.
    pub lag: u64,
    /// The last sequence that was taken.
    #[serde(skip_serializing_if = "omit::zero")]
    pub seq: u64,
    /// How long ago the origin was heard of; -1 for never.
    pub active: Nanos,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ApiError>,
    /// Which subjects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_subject: String,
    /// Which subjects, and how they are written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subject_transforms: Vec<SubjectTransform>,
}

/// A stream with the same messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Alternate {
    /// The stream.
    pub name: String,
    /// Its domain.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Its cluster.
    pub cluster: String,
}

/// What an answer tells of a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamInfo {
    /// Its configuration.
    pub config: StreamConfig,
    /// When it was created.
    pub created: Time,
    /// What it holds.
    pub state: StreamState,
    /// The server's domain.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterInfo>,
    /// How far it is as a mirror.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror: Option<SourceInfo>,
    /// How far its sources are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceInfo>,
    /// This stream and its mirrors, the nearest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternates: Vec<Alternate>,
    /// When this was found out.
    pub ts: Time,
}

/// The answer to STREAM.INFO. The page is that of the subjects, all zero if none were asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamInfoAnswer {
    /// Which page of the subjects.
    #[serde(flatten)]
    pub page: Page,
    /// The stream.
    #[serde(flatten)]
    pub info: StreamInfo,
}

impl StreamInfoAnswer {
    /// The page of subjects that begins there. `total` is the number of those that match. The offset is
    /// repeated as it was asked for.
    #[must_use]
    pub fn page_of_subjects(total: usize, offset: i64) -> Page {
        match total {
            0 => Page::default(),
            _ => Page { total, offset: usize::try_from(offset).unwrap_or(0), limit: SUBJECTS_PAGE },
        }
    }
}

/// A position, in a consumer's own sequence and in the stream's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SequenceInfo {
    /// The consumer's.
    pub consumer_seq: u64,
    /// The stream's.
    pub stream_seq: u64,
    /// When it moved last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_active: Option<Time>,
}

/// Which client a priority group is pinned to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PriorityGroupState {
    /// The group.
    pub group: String,
    /// The client.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pinned_client_id: String,
    /// Since when, or Go's zero time.
    pub pinned_ts: Time,
}

/// What an answer tells of a consumer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConsumerInfo {
    /// Its stream.
    pub stream_name: String,
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: Time,
    /// Its configuration.
    pub config: ConsumerConfig,
    /// How far it has delivered, or passed over.
    pub delivered: SequenceInfo,
    /// Up to where all is acknowledged.
    pub ack_floor: SequenceInfo,
    /// How many messages wait for an acknowledgement.
    pub num_ack_pending: usize,
    /// How many of those were delivered more than once.
    pub num_redelivered: usize,
    /// How many pull requests wait.
    pub num_waiting: usize,
    /// How many messages it has not delivered yet.
    pub num_pending: u64,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterInfo>,
    /// Somebody listens where it delivers.
    #[serde(skip_serializing_if = "omit::zero")]
    pub push_bound: bool,
    /// It delivers nothing for the time being.
    #[serde(skip_serializing_if = "omit::zero")]
    pub paused: bool,
    /// For how long.
    #[serde(skip_serializing_if = "omit::zero")]
    pub pause_remaining: Nanos,
    /// When this was found out.
    pub ts: Time,
    /// Its priority groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub priority_groups: Vec<PriorityGroupState>,
}
