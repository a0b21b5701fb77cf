//! The fields of a consumer's configuration, in the order in which nats-server writes them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::go::{Nanos, Time};
use crate::json::{can_not_unmarshal, fields, words};
use crate::stream::metadata::{add_dynamic, set_required_level};
use crate::stream::omit;

/// Where a consumer begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliverPolicy {
    /// At the first message.
    #[default]
    All,
    /// At the last one that matches.
    Last,
    /// After the last one.
    New,
    /// At a sequence.
    ByStartSequence,
    /// At a time.
    ByStartTime,
    /// At the last one of each subject.
    LastPerSubject,
}

words! {
    DeliverPolicy; can_not_unmarshal;
    "all" All "undefined" All "last" Last "last_per_subject" LastPerSubject "new" New
    "by_start_sequence" ByStartSequence "by_start_time" ByStartTime
}

/// What an acknowledgement covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AckPolicy {
    /// There are none.
    #[default]
    None,
    /// All up to that message.
    All,
    /// That message.
    Explicit,
    /// What the answers to flow control say was handled.
    FlowControl,
}

words! {
    AckPolicy; can_not_unmarshal;
    "none" None "all" All "explicit" Explicit "flow_control" FlowControl
}

/// How fast stored messages are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayPolicy {
    /// At once.
    #[default]
    Instant,
    /// As they came in.
    Original,
}

words! { ReplayPolicy; can_not_unmarshal; "instant" Instant "original" Original }

/// Which of several clients gets messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PriorityPolicy {
    /// All.
    #[default]
    None,
    /// Those that say so get messages only when many wait.
    Overflow,
    /// One, until it is quiet.
    PinnedClient,
    /// Those with the lowest number first.
    Prioritized,
}

fn unknown_policy(raw: &[u8]) -> String {
    format!("unknown priority policy: {}", String::from_utf8_lossy(raw))
}

words! {
    PriorityPolicy; unknown_policy;
    "overflow" Overflow "pinned_client" PinnedClient "prioritized" Prioritized "none" None
}

/// What a request to create a consumer may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Create it or change it.
    #[default]
    CreateOrUpdate,
    /// Change it.
    Update,
    /// Create it.
    Create,
}

fn unknown_action(raw: &[u8]) -> String {
    format!("unknown consumer action: {}", String::from_utf8_lossy(raw))
}

words! { Action; unknown_action; "create" Create "update" Update "" CreateOrUpdate }

/// A consumer's configuration. Its JSON form is nats-server's: the same order, the same fields left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the protocol, described where they are checked")]
pub struct ConsumerConfig {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub durable_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub deliver_policy: DeliverPolicy,
    #[serde(skip_serializing_if = "omit::zero")]
    pub opt_start_seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opt_start_time: Option<Time>,
    pub ack_policy: AckPolicy,
    #[serde(skip_serializing_if = "omit::zero")]
    pub ack_wait: Nanos,
    #[serde(skip_serializing_if = "omit::zero")]
    pub max_deliver: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backoff: Vec<Nanos>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_subject: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter_subjects: Vec<String>,
    pub replay_policy: ReplayPolicy,
    #[serde(skip_serializing_if = "omit::zero")]
    pub rate_limit_bps: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sample_freq: String,
    #[serde(skip_serializing_if = "omit::zero")]
    pub max_waiting: i64,
    #[serde(skip_serializing_if = "omit::zero")]
    pub max_ack_pending: i64,
    #[serde(skip_serializing_if = "omit::zero")]
    pub flow_control: bool,
    #[serde(skip_serializing_if = "omit::zero")]
    pub headers_only: bool,
    #[serde(skip_serializing_if = "omit::zero")]
    pub max_batch: i64,
    #[serde(skip_serializing_if = "omit::zero")]
    pub max_expires: Nanos,
    #[serde(skip_serializing_if = "omit::zero")]
    pub max_bytes: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deliver_subject: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deliver_group: String,
    #[serde(skip_serializing_if = "omit::zero")]
    pub idle_heartbeat: Nanos,
    #[serde(skip_serializing_if = "omit::zero")]
    pub inactive_threshold: Nanos,
    pub num_replicas: i64,
    #[serde(skip_serializing_if = "omit::zero")]
    pub mem_storage: bool,
    #[serde(skip_serializing_if = "omit::zero")]
    pub direct: bool,
    #[serde(skip_serializing_if = "omit::zero")]
    pub sourcing: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_until: Option<Time>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub priority_groups: Vec<String>,
    #[serde(skip_serializing_if = "omit::zero")]
    pub priority_policy: PriorityPolicy,
    #[serde(skip_serializing_if = "omit::zero")]
    pub priority_timeout: Nanos,
}

fields! {
    ConsumerConfig as "ConsumerConfig";
    "durable_name" "string" durable_name
    "name" "string" name
    "description" "string" description
    "deliver_policy" "server.DeliverPolicy" deliver_policy
    "opt_start_seq" "uint64" opt_start_seq
    "opt_start_time" "*time.Time" opt_start_time
    "ack_policy" "server.AckPolicy" ack_policy
    "ack_wait" "time.Duration" ack_wait
    "max_deliver" "int" max_deliver
    "backoff" "[]time.Duration" backoff
    "filter_subject" "string" filter_subject
    "filter_subjects" "[]string" filter_subjects
    "replay_policy" "server.ReplayPolicy" replay_policy
    "rate_limit_bps" "uint64" rate_limit_bps
    "sample_freq" "string" sample_freq
    "max_waiting" "int" max_waiting
    "max_ack_pending" "int" max_ack_pending
    "flow_control" "bool" flow_control
    "headers_only" "bool" headers_only
    "max_batch" "int" max_batch
    "max_expires" "time.Duration" max_expires
    "max_bytes" "int" max_bytes
    "deliver_subject" "string" deliver_subject
    "deliver_group" "string" deliver_group
    "idle_heartbeat" "time.Duration" idle_heartbeat
    "inactive_threshold" "time.Duration" inactive_threshold
    "num_replicas" "int" num_replicas
    "mem_storage" "bool" mem_storage
    "direct" "bool" direct
    "sourcing" "bool" sourcing
    "metadata" "map[string]string" metadata
    "pause_until" "*time.Time" pause_until
    "priority_groups" "[]string" priority_groups
    "priority_policy" "server.PriorityPolicy" priority_policy
    "priority_timeout" "time.Duration" priority_timeout
}

/// The body of a request to create or change a consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateRequest {
    /// The stream, which the subject names, too.
    pub stream: String,
    /// The configuration.
    pub config: ConsumerConfig,
    /// Whether it may be there already.
    pub action: Action,
    /// Refuse what would be adapted.
    pub pedantic: bool,
}

fields! {
    CreateRequest as "CreateConsumerRequest";
    "stream_name" "string" stream
    "config" "server.ConsumerConfig" config
    "action" "server.ConsumerAction" action
    "pedantic" "bool" pedantic
}

impl ConsumerConfig {
    /// The subjects it takes; none for all.
    pub fn filters(&self) -> impl Iterator<Item = &str> {
        let single = (!self.filter_subject.is_empty()).then_some(&self.filter_subject);
        self.filter_subjects.iter().chain(single).map(String::as_str)
    }

    /// Reports whether messages are sent to a subject, rather than asked for.
    #[must_use]
    pub fn is_push(&self) -> bool {
        !self.deliver_subject.is_empty()
    }

    /// Reports whether it outlives its clients.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        !self.durable_name.is_empty()
    }

    /// Writes the level of the API that the configuration needs.
    pub(super) fn set_required_level(&mut self) {
        let pauses = self.pause_until.is_some_and(|until| !until.is_zero());
        let priorities = self.priority_policy != PriorityPolicy::None
            || self.priority_timeout != 0
            || !self.priority_groups.is_empty();
        let levels = [(pauses || priorities, 1), (self.ack_policy == AckPolicy::FlowControl, 4)];
        set_required_level(&mut self.metadata, &levels);
    }

    /// The configuration when it is paused until then, or no longer if the time is zero.
    #[must_use]
    pub fn paused(&self, until: Time) -> Self {
        let mut config = self.clone();
        config.pause_until = (!until.is_zero()).then(|| until.in_utc());
        config.set_required_level();
        config
    }

    /// The configuration as answers to create and info show it. `version` is that of the server.
    #[must_use]
    pub fn for_answer(&self, version: &str) -> Self {
        let mut config = self.clone();
        add_dynamic(&mut config.metadata, version);
        config
    }
}
