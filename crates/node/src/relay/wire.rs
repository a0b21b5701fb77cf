//! The request with batches for the leader of their partition, and its answer, as bytes.
//! docs/cluster-protocol.md describes every field. Integers are little endian.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tailrace_types::{Offset, PartitionId, RaftGroup, TopicId};

/// Maximum batches of one request: as many as a partition remembers of each producer, so that all are
/// recognised.
pub(super) const BATCHES_MAX: usize = 5;

/// Bytes before the batches.
const GROUP_BYTES: usize = 20;

/// The leader's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreAnswer {
    /// All batches are committed, starting at these offsets.
    Stored(Vec<Offset>),
    /// Nothing is certain. The same request has to be retried, there or at another node.
    Again(String),
    /// The first batches are committed, the next one was refused, and those behind it were not tried.
    Refused { stored: Vec<Offset>, reason: String },
}

/// Encodes the batches for one partition.
pub(super) fn encode_request(group: RaftGroup, batches: &[Bytes]) -> Bytes {
    let bytes: usize = batches.iter().map(|batch| 4 + batch.len()).sum();
    let mut out = BytesMut::with_capacity(GROUP_BYTES + bytes);
    out.put_slice(&group.topic.0);
    out.put_i32_le(group.partition.0);
    put_batches(&mut out, batches);
    out.freeze()
}

/// Appends batches, each behind its length.
pub(super) fn put_batches(out: &mut BytesMut, batches: &[Bytes]) {
    for batch in batches {
        out.put_u32_le(u32::try_from(batch.len()).expect("a batch has less than 2 GiB"));
        out.put_slice(batch);
    }
}

/// Reads batches up to the end. `None` if there are none or too many, or if one is cut short.
pub(super) fn take_batches(mut from: Bytes) -> Option<Vec<Bytes>> {
    let mut batches = Vec::new();
    while !from.is_empty() {
        let length = from.try_get_u32_le().ok()? as usize;
        if length > from.len() || batches.len() == BATCHES_MAX {
            return None;
        }
        batches.push(from.split_to(length));
    }
    (!batches.is_empty()).then_some(batches)
}

pub(super) fn decode_request(mut from: Bytes) -> Option<(RaftGroup, Vec<Bytes>)> {
    if from.len() < GROUP_BYTES {
        return None;
    }
    let mut topic = [0; 16];
    from.copy_to_slice(&mut topic);
    let group = RaftGroup { topic: TopicId(topic), partition: PartitionId(from.get_i32_le()) };
    Some((group, take_batches(from)?))
}

impl StoreAnswer {
    pub(super) fn encode(&self) -> Bytes {
        let (outcome, stored, reason) = match self {
            Self::Stored(stored) => (0, &stored[..], ""),
            Self::Again(reason) => (1, &[][..], reason.as_str()),
            Self::Refused { stored, reason } => (2, &stored[..], reason.as_str()),
        };
        let mut out = BytesMut::with_capacity(2 + 8 * stored.len() + reason.len());
        out.put_u8(outcome);
        out.put_u8(u8::try_from(stored.len()).expect("a request has BATCHES_MAX batches at most"));
        stored.iter().for_each(|offset| out.put_i64_le(offset.get()));
        out.put_slice(reason.as_bytes());
        out.freeze()
    }

    pub(super) fn decode(mut from: Bytes) -> Option<Self> {
        let (outcome, count) = (from.try_get_u8().ok()?, usize::from(from.try_get_u8().ok()?));
        if count > BATCHES_MAX || from.len() < 8 * count {
            return None;
        }
        let stored: Vec<_> = (0..count).map(|_| Offset(from.get_i64_le())).collect();
        let reason = String::from_utf8_lossy(&from).into_owned();
        match outcome {
            0 => Some(Self::Stored(stored)),
            1 => Some(Self::Again(reason)),
            2 => Some(Self::Refused { stored, reason }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_have_the_documented_bytes() {
        let group = RaftGroup { topic: TopicId([7; 16]), partition: PartitionId(9) };
        let batches = [Bytes::from_static(b"ab"), Bytes::from_static(b"c")];
        let encoded = encode_request(group, &batches);
        let mut expected = vec![7; 16];
        expected.extend(b"\x09\0\0\0\x02\0\0\0ab\x01\0\0\0c");
        assert_eq!(encoded[..], expected);
        assert_eq!(decode_request(encoded.clone()), Some((group, batches.to_vec())));
        for length in [0, 19, 20, 23, 24, 25, encoded.len() - 1] {
            assert_eq!(decode_request(encoded.slice(..length)), None, "{length} bytes");
        }
        let many = vec![Bytes::from_static(b"x"); BATCHES_MAX + 1];
        assert_eq!(decode_request(encode_request(group, &many)), None);
        let answer = StoreAnswer::Refused { stored: vec![Offset(258)], reason: "no".to_owned() };
        assert_eq!(answer.encode()[..], b"\x02\x01\x02\x01\0\0\0\0\0\0no"[..]);
        for answer in
            [answer, StoreAnswer::Stored(vec![Offset(1), Offset(2)]), StoreAnswer::Again("why".to_owned())]
        {
            assert_eq!(StoreAnswer::decode(answer.encode()), Some(answer));
        }
        for bad in [&b""[..], b"\x00", b"\x00\x01\x00", b"\x03\x00", b"\x00\x06"] {
            assert_eq!(StoreAnswer::decode(Bytes::from_static(bad)), None, "{bad:?}");
        }
    }
}
