//! The connection whose messages are captured, and what is said of those that were lost.

use std::sync::Arc;

use tailrace_node::Caller;
use tailrace_node::partitions::Topic;

use super::acks::{self, Failure, Replies, Telling};
use super::line::Line;
use crate::server::NatsServer;

/// The connection whose messages are captured.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) server: &'a Arc<NatsServer>,
    pub(super) caller: &'a Caller,
    pub(super) line: &'a Line,
}

/// Counts lost messages. Logs, at most once per interval, those without a reply subject. Sends errors for the
/// others.
pub(super) fn lost(
    origin: Origin<'_>,
    topic: &Topic,
    partition: u32,
    count: usize,
    replies: Replies,
    failure: &Failure,
) -> Telling {
    let Origin { server, caller, line } = origin;
    server.front.metrics().capture.errors(failure.label()).inc_by(count as u64);
    if replies.len() < count && server.front.captures().may_log() {
        tracing::warn!(
            %caller, topic = %topic.name, partition, messages = count - replies.len(), reason = %failure,
            "captured messages were not stored; further losses are counted, and logged at most once a second"
        );
    }
    acks::tell_failure(server, line, topic, partition, replies, failure)
}
