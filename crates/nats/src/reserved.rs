//! Names that servers keep for each other, as in nats-server: no client may publish to them, have answers sent there, or share them.

/// Where JetStream's messages are acknowledged.
const JETSTREAM_ACKS: &[u8] = b"$JS.ACK.";
/// Answers to requests across accounts.
const SERVICE_REPLIES: &[u8] = b"_R_.";
/// Answers across gateways, as they are and as they were.
const GATEWAY_REPLIES: [&[u8]; 2] = [b"_GR_.", b"$GR."];
/// Groups of servers that agree on a log.
const RAFT: &[u8] = b"$NRG.";
/// The queue group of servers.
const QUEUE: &[u8] = b"_sys_";

/// True if no client may publish there.
#[inline]
pub(super) fn is_subject(subject: &[u8]) -> bool {
    matches!(subject.first(), Some(b'_' | b'$'))
        && (subject.starts_with(RAFT) || GATEWAY_REPLIES.iter().any(|prefix| is_below(subject, prefix)))
}

/// True for the replies that servers make up.
#[inline]
pub(super) fn is_reply(reply: &[u8]) -> bool {
    matches!(reply.first(), Some(b'_' | b'$'))
        && (reply.starts_with(SERVICE_REPLIES)
            || is_below(reply, JETSTREAM_ACKS)
            || GATEWAY_REPLIES.iter().any(|prefix| is_below(reply, prefix)))
}

/// True for the queue group that no client may join.
pub(super) fn is_queue(queue: &[u8]) -> bool {
    queue == QUEUE
}

fn is_below(subject: &[u8], prefix: &[u8]) -> bool {
    subject.len() > prefix.len() && subject.starts_with(prefix)
}
