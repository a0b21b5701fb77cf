//! Heartbeats, separated from other messages so that those of many groups can be sent together in a shorter
//! form.

use bytes::Bytes;
use raft::eraftpb::{Message, MessageType};
use tailrace_types::ReplicaId;

use super::message::PeerMessage;
use super::wire;

/// The longest context of a [`Heartbeat`] in bytes. Raft's own contexts have 8.
const CONTEXT_BYTES_MAX: usize = 255;

/// The content of a heartbeat or of its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// True for a response.
    pub answer: bool,
    /// The sender.
    pub from: ReplicaId,
    /// The receiver.
    pub to: ReplicaId,
    /// The sender's term.
    pub term: u64,
    /// The index that the receiver may take for committed. In a response, the sender's commit index.
    pub commit: u64,
    /// Returned in the response. At most 255 bytes.
    pub context: Bytes,
}

impl PeerMessage {
    /// Returns the message as a heartbeat or its response. `None` if it is another message, or carries more.
    pub fn heartbeat(&self) -> Option<Heartbeat> {
        let message = &self.0;
        let answer = match message.get_msg_type() {
            MessageType::MsgHeartbeat => false,
            MessageType::MsgHeartbeatResponse => true,
            _ => return None,
        };
        let rest = [
            message.log_term,
            message.index,
            message.commit_term,
            message.reject_hint,
            message.request_snapshot,
            message.priority.cast_unsigned(),
            u64::from(message.reject),
        ];
        let says_more = rest.iter().any(|value| *value != 0)
            || !message.entries.is_empty()
            || message.context.len() > CONTEXT_BYTES_MAX;
        (!says_more).then(|| Heartbeat {
            answer,
            from: self.from(),
            to: self.to(),
            term: message.term,
            commit: message.commit,
            context: message.context.clone(),
        })
    }

    /// Returns the number of bytes that [`PeerMessage::encode`] appends.
    pub fn encoded_bytes(&self) -> usize {
        wire::encoded_bytes(&self.0)
    }
}

impl From<Heartbeat> for PeerMessage {
    fn from(heartbeat: Heartbeat) -> Self {
        let mut message = Message::default();
        message.set_msg_type(if heartbeat.answer {
            MessageType::MsgHeartbeatResponse
        } else {
            MessageType::MsgHeartbeat
        });
        (message.from, message.to) = (heartbeat.from.0, heartbeat.to.0);
        (message.term, message.commit) = (heartbeat.term, heartbeat.commit);
        message.context = heartbeat.context;
        Self(message)
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use raft::eraftpb::Entry;

    use super::*;

    fn heartbeat(answer: bool) -> Heartbeat {
        let (from, to) = (ReplicaId(1 << 32 | 1), ReplicaId(2 << 32 | 3));
        Heartbeat { answer, from, to, term: 7, commit: 11, context: Bytes::from_static(b"context") }
    }

    #[test]
    fn heartbeats_come_back_and_are_the_same_message_in_the_long_form() {
        for answer in [false, true] {
            let message: PeerMessage = heartbeat(answer).into();
            assert_eq!(message.heartbeat(), Some(heartbeat(answer)));
            let mut long = BytesMut::new();
            message.encode(&mut long);
            assert_eq!(long.len(), message.encoded_bytes());
            assert_eq!(PeerMessage::decode(long.freeze()), Ok(message));
        }
    }

    #[test]
    fn what_says_more_is_no_heartbeat() {
        let fields: [fn(&mut Message); 9] = [
            |m| m.log_term = 1,
            |m| m.index = 1,
            |m| m.commit_term = 1,
            |m| m.reject_hint = 1,
            |m| m.request_snapshot = 1,
            |m| m.priority = -1,
            |m| m.reject = true,
            |m| m.set_entries(vec![Entry::default()].into()),
            |m| m.context = Bytes::from_static(&[0; CONTEXT_BYTES_MAX + 1]),
        ];
        for change in fields {
            let mut message: PeerMessage = heartbeat(false).into();
            change(&mut message.0);
            assert_eq!(message.heartbeat(), None);
        }
        let mut message: PeerMessage = heartbeat(false).into();
        message.0.set_msg_type(MessageType::MsgAppend);
        assert_eq!(message.heartbeat(), None);
    }
}
