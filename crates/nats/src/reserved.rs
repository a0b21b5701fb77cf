//! Subjects and queue groups reserved for servers, as in nats-server. Clients may not publish to them, use
//! them for replies, or join them.

/// JetStream's subjects for acknowledgements.
const JETSTREAM_ACKS: &[u8] = b"$JS.ACK.";
/// Replies to requests across accounts.
const SERVICE_REPLIES: &[u8] = b"_R_.";
/// Replies across gateways, with their current and their old prefix.
const GATEWAY_REPLIES: [&[u8]; 2] = [b"_GR_.", b"$GR."];
/// Raft groups of servers.
const RAFT: &[u8] = b"$NRG.";
/// The queue group of servers.
const QUEUE: &[u8] = b"_sys_";

/// Reports whether clients may not publish to this subject.
#[inline]
pub(super) fn is_subject(subject: &[u8]) -> bool {
    matches!(subject.first(), Some(b'_' | b'$'))
        && (subject.starts_with(RAFT) || GATEWAY_REPLIES.iter().any(|prefix| is_below(subject, prefix)))
}

/// Reports whether this reply subject is reserved for servers.
#[inline]
pub(super) fn is_reply(reply: &[u8]) -> bool {
    matches!(reply.first(), Some(b'_' | b'$'))
        && (reply.starts_with(SERVICE_REPLIES)
            || is_below(reply, JETSTREAM_ACKS)
            || GATEWAY_REPLIES.iter().any(|prefix| is_below(reply, prefix)))
}

/// Reports whether this is the queue group that no client may join.
pub(super) fn is_queue(queue: &[u8]) -> bool {
    queue == QUEUE
}

fn is_below(subject: &[u8], prefix: &[u8]) -> bool {
    subject.len() > prefix.len() && subject.starts_with(prefix)
}
