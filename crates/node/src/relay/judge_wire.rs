//! The request with messages for the leader of a stream, which judges them, and its answer, as bytes.
//! docs/cluster-protocol.md describes every field. Integers are little endian.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tailrace_jetstream::error::ApiError;
use tailrace_types::{LeaderEpoch, PartitionId, ProducerId, RaftGroup, TopicId};

use super::wire::{put_batches, take_batches};
use crate::streams::{PublishRequest, Published, Sender};

/// Bytes before the batches.
const HEAD_BYTES: usize = 44;

/// Most messages of a request: far more than fit into one.
const MESSAGES_MAX: usize = 1 << 24;

/// The leader's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JudgeAnswer {
    /// What became of each message, and how many records of the sender are stored. All of it is committed.
    Judged { stored: i32, published: Vec<Published> },
    /// Nothing is certain. The same request has to be retried, there or at another node.
    Again(String),
    /// None of it is stored by this attempt.
    Refused(String),
    /// Some of it may be stored, and to ask again will not tell.
    Unknown(String),
}

pub(super) fn encode_request(group: RaftGroup, sender: &Sender, batches: &[Bytes]) -> Bytes {
    let bytes: usize = batches.iter().map(|batch| 4 + batch.len()).sum();
    let mut out = BytesMut::with_capacity(HEAD_BYTES + bytes);
    out.put_slice(&group.topic.0);
    out.put_i32_le(group.partition.0);
    out.put_i32_le(sender.epoch.unwrap_or(LeaderEpoch::UNKNOWN).get());
    out.put_i64_le(sender.producer.get());
    out.put_i32_le(sender.sequence);
    out.put_u64_le(sender.request);
    put_batches(&mut out, batches);
    out.freeze()
}

pub(super) fn decode_request(mut from: Bytes) -> Option<(RaftGroup, PublishRequest)> {
    if from.len() < HEAD_BYTES {
        return None;
    }
    let mut topic = [0; 16];
    from.copy_to_slice(&mut topic);
    let group = RaftGroup { topic: TopicId(topic), partition: PartitionId(from.get_i32_le()) };
    let epoch = LeaderEpoch(from.get_i32_le());
    let producer = ProducerId(from.get_i64_le());
    let (sequence, request) = (from.get_i32_le(), from.get_u64_le());
    let epoch = (epoch != LeaderEpoch::UNKNOWN).then_some(epoch);
    let batches = take_batches(from)?;
    let sender = Some(Sender { producer, sequence, request, epoch });
    (sequence >= 0 && producer.get() >= 0).then_some((group, PublishRequest { batches, sender }))
}

impl JudgeAnswer {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        let (outcome, reason) = match self {
            Self::Judged { stored, published } => {
                out.put_u8(0);
                out.put_i32_le(*stored);
                published.iter().for_each(|published| encode_published(published, &mut out));
                return out.freeze();
            }
            Self::Again(reason) => (1, reason),
            Self::Refused(reason) => (2, reason),
            Self::Unknown(reason) => (3, reason),
        };
        out.put_u8(outcome);
        out.put_slice(reason.as_bytes());
        out.freeze()
    }

    pub(super) fn decode(mut from: Bytes) -> Option<Self> {
        let outcome = from.try_get_u8().ok()?;
        if outcome == 0 {
            let stored = from.try_get_i32_le().ok()?;
            let mut published = Vec::new();
            while !from.is_empty() {
                published.push(decode_published(&mut from)?);
                if published.len() > MESSAGES_MAX {
                    return None;
                }
            }
            return Some(Self::Judged { stored, published });
        }
        let reason = String::from_utf8_lossy(&from).into_owned();
        match outcome {
            1 => Some(Self::Again(reason)),
            2 => Some(Self::Refused(reason)),
            3 => Some(Self::Unknown(reason)),
            _ => None,
        }
    }
}

fn encode_published(published: &Published, out: &mut BytesMut) {
    match published {
        Published::Stored(seq) => {
            out.put_u8(0);
            out.put_u64_le(*seq);
        }
        Published::Duplicate(seq) => {
            out.put_u8(1);
            out.put_u64_le(*seq);
        }
        Published::Refused(error) => {
            let text = error.description().as_bytes();
            // Texts name at most an id or a value of a header.
            let text = &text[..text.len().min(usize::from(u16::MAX))];
            out.put_u8(2);
            out.put_u16_le(error.kind().err_code());
            out.put_u16_le(u16::try_from(text.len()).unwrap_or(u16::MAX));
            out.put_slice(text);
        }
    }
}

fn decode_published(from: &mut Bytes) -> Option<Published> {
    match from.try_get_u8().ok()? {
        0 => from.try_get_u64_le().ok().map(Published::Stored),
        1 => from.try_get_u64_le().ok().map(Published::Duplicate),
        2 => {
            let code = from.try_get_u16_le().ok()?;
            let length = usize::from(from.try_get_u16_le().ok()?);
            let text = (length <= from.len()).then(|| from.split_to(length))?;
            let error = ApiError::told(code, String::from_utf8_lossy(&text).into_owned())?;
            Some(Published::Refused(Box::new(error)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tailrace_jetstream::error::ErrorKind;

    use super::super::wire::BATCHES_MAX;
    use super::*;

    #[test]
    fn requests_and_answers_have_the_documented_bytes() {
        let group = RaftGroup { topic: TopicId([7; 16]), partition: PartitionId(0) };
        let sender =
            Sender { producer: ProducerId(9), sequence: 3, request: 258, epoch: Some(LeaderEpoch(5)) };
        let batches = vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c")];
        let encoded = encode_request(group, &sender, &batches);
        let mut expected = vec![7; 16];
        expected.extend(b"\0\0\0\0\x05\0\0\0\x09\0\0\0\0\0\0\0\x03\0\0\0\x02\x01\0\0\0\0\0\0");
        expected.extend(b"\x02\0\0\0ab\x01\0\0\0c");
        assert_eq!(encoded[..], expected);
        let (back, request) = decode_request(encoded.clone()).unwrap();
        assert_eq!((back, request.sender, request.batches), (group, Some(sender), batches));
        for length in [0, 43, 44, 47, 49, encoded.len() - 1] {
            assert!(decode_request(encoded.slice(..length)).is_none(), "{length} bytes");
        }
        let many = vec![Bytes::from_static(b"x"); BATCHES_MAX + 1];
        assert!(decode_request(encode_request(group, &sender, &many)).is_none());
        let error = ApiError::with(ErrorKind::StreamWrongLastSequence, &[("{seq}", "7")]);
        let published =
            vec![Published::Stored(4), Published::Duplicate(2), Published::Refused(Box::new(error))];
        let answer = JudgeAnswer::Judged { stored: 1, published };
        let encoded = answer.encode();
        assert_eq!(encoded[..14], b"\0\x01\0\0\0\0\x04\0\0\0\0\0\0\0"[..]);
        assert_eq!(encoded[23..28], b"\x02\x57\x27\x16\0"[..]);
        for answer in [
            answer,
            JudgeAnswer::Again("a".into()),
            JudgeAnswer::Refused("r".into()),
            JudgeAnswer::Unknown("u".into()),
        ] {
            assert_eq!(JudgeAnswer::decode(answer.encode()), Some(answer));
        }
        for bad in
            [&b""[..], b"\0", b"\0\0\0\0\0\0\x01", b"\0\0\0\0\0\x03", b"\0\0\0\0\0\x02\xff\xff\0\0", b"\x04"]
        {
            assert_eq!(JudgeAnswer::decode(Bytes::from_static(bad)), None, "{bad:?}");
        }
    }
}
