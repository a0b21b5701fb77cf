//! The encoding of messages between replicas.
//!
//! The format is tailrace's own, so that no input from the network reaches a parser without bounds. Integers
//! are little endian, and terms have 31 bits. Batches are neither copied nor inspected here.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, 1 |
//! | 1 | kind |
//! | 1 | 1 if it rejects |
//! | 1 | 0 |
//! | 10 x 8 | from, to, term, log term, index, commit, commit term, reject hint, snapshot request, priority |
//! | 4 | bytes of the context |
//! | 4 | number of entries |
//! | | the context |
//! | | each entry: 1 byte kind, 8 term, 8 index, 4 bytes of data, the data |
//!
//! Kinds of entries: 0 with a batch or empty, 1 a membership change, 2 another entry without records. A
//! snapshot (kind 14) continues with 8 bytes each of index and term, four u16 (voters, learners, outgoing
//! voters, next learners), 1 byte auto leave, 4 bytes of manifest length, 8 bytes for each member, and the
//! manifest (`manifest.rs`).

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use raft::eraftpb::{Entry, EntryType, Message, MessageType, Snapshot};

use super::ballot::{IDS_MAX, from_lists, lists};
use super::manifest::MANIFEST_BYTES_MAX;

const VERSION: u8 = 1;
const FIXED_BYTES: usize = 4 + 10 * 8 + 8;
const ENTRY_FIXED_BYTES: usize = 1 + 8 + 8 + 4;
/// Raft's own contexts are a few bytes long.
const CONTEXT_BYTES_MAX: usize = 1024;

/// The kinds of messages between replicas, by their numbers. 11 to 13 are unused. The engine knows such
/// messages, and panics over one without entries. No replica sends them.
const KINDS: [(u8, MessageType); 11] = [
    (1, MessageType::MsgAppend),
    (2, MessageType::MsgAppendResponse),
    (3, MessageType::MsgHeartbeat),
    (4, MessageType::MsgHeartbeatResponse),
    (5, MessageType::MsgRequestVote),
    (6, MessageType::MsgRequestVoteResponse),
    (7, MessageType::MsgRequestPreVote),
    (8, MessageType::MsgRequestPreVoteResponse),
    (9, MessageType::MsgTransferLeader),
    (10, MessageType::MsgTimeoutNow),
    (14, MessageType::MsgSnapshot),
];

const BATCH: u8 = 0;
const MEMBERS: u8 = 1;
const OTHER: u8 = 2;
/// Bytes of a snapshot before its lists.
const SNAPSHOT_FIXED_BYTES: usize = 8 + 8 + 4 * 2 + 1 + 4;

/// The last term. Epochs are terms, and have 31 bits.
pub const TERM_MAX: u64 = i32::MAX as u64;

/// The reason why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Another version of the format.
    #[error("message format version {found}, expected {VERSION}")]
    Version {
        /// The version found.
        found: u8,
    },
    /// An unknown kind.
    #[error("unknown kind {found} of a {what}")]
    Kind {
        /// The name of the kind.
        what: &'static str,
        /// The number found.
        found: u8,
    },
    /// A term that no group reaches. Epochs are terms.
    #[error("term {found} is beyond the last one, {TERM_MAX}")]
    Term {
        /// The term found.
        found: u64,
    },
    /// Too few or too many bytes.
    #[error("a message of {bytes} bytes is cut off, or too long")]
    Length {
        /// The number of bytes found.
        bytes: usize,
    },
}

/// Returns the encoded size of a message.
pub(super) fn encoded_bytes(message: &Message) -> usize {
    if message.get_msg_type() == MessageType::MsgSnapshot {
        // Rare, and without batches.
        let mut out = BytesMut::new();
        return encode(message, &mut out).map_or(0, |()| out.len());
    }
    let data = |entry: &Entry| match entry.get_entry_type() {
        EntryType::EntryNormal if !entry.context.is_empty() => entry.context.len(),
        _ => entry.data.len(),
    };
    let entries = message.entries.iter().map(|entry| ENTRY_FIXED_BYTES + data(entry));
    FIXED_BYTES + message.context.len() + entries.sum::<usize>()
}

/// Appends a message to `out`. `None` if it is of a kind that replicas do not send to each other.
pub(super) fn encode(message: &Message, out: &mut BytesMut) -> Option<()> {
    let kind = KINDS.iter().find(|(_, kind)| *kind == message.get_msg_type())?.0;
    out.put_slice(&[VERSION, kind, u8::from(message.reject), 0]);
    for value in [
        message.from,
        message.to,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.reject_hint,
        message.request_snapshot,
        message.priority.cast_unsigned(),
    ] {
        out.put_u64_le(value);
    }
    out.put_u32_le(u32::try_from(message.context.len()).ok()?);
    out.put_u32_le(u32::try_from(message.entries.len()).ok()?);
    out.put_slice(&message.context);
    for entry in message.entries.iter() {
        let (kind, data) = match entry.get_entry_type() {
            EntryType::EntryConfChangeV2 => (MEMBERS, &entry.data),
            EntryType::EntryNormal if !entry.context.is_empty() => (OTHER, &entry.context),
            EntryType::EntryNormal => (BATCH, &entry.data),
            EntryType::EntryConfChange => return None,
        };
        out.put_u8(kind);
        out.put_u64_le(entry.term);
        out.put_u64_le(entry.index);
        out.put_u32_le(u32::try_from(data.len()).ok()?);
        out.put_slice(data);
    }
    if message.get_msg_type() == MessageType::MsgSnapshot {
        encode_snapshot(message.get_snapshot(), out)
    } else {
        Some(())
    }
}

fn encode_snapshot(snapshot: &Snapshot, out: &mut BytesMut) -> Option<()> {
    let metadata = snapshot.get_metadata();
    let members = metadata.get_conf_state();
    out.put_u64_le(metadata.index);
    out.put_u64_le(metadata.term);
    for list in lists(members) {
        out.put_u16_le(u16::try_from(list.len()).ok()?);
    }
    out.put_u8(u8::from(members.auto_leave));
    out.put_u32_le(u32::try_from(snapshot.data.len()).ok()?);
    lists(members).into_iter().flatten().for_each(|id| out.put_u64_le(*id));
    out.put_slice(&snapshot.data);
    Some(())
}

fn decode_snapshot(bytes: &mut Bytes, length: WireError) -> Result<Snapshot, WireError> {
    if bytes.len() < SNAPSHOT_FIXED_BYTES {
        return Err(length);
    }
    let (index, term) = (bytes.get_u64_le(), bytes.get_u64_le());
    let counts = [(); 4].map(|()| usize::from(bytes.get_u16_le()));
    let (auto_leave, data) = (bytes.get_u8() != 0, bytes.get_u32_le() as usize);
    let ids: usize = counts.iter().sum();
    if ids > IDS_MAX || data > MANIFEST_BYTES_MAX || bytes.len() != ids * 8 + data {
        return Err(length);
    }
    let lists = counts.map(|count| (0..count).map(|_| bytes.get_u64_le()).collect());
    let mut snapshot = Snapshot::default();
    let metadata = snapshot.mut_metadata();
    (metadata.index, metadata.term) = (index, term);
    metadata.set_conf_state(from_lists(lists, auto_leave));
    snapshot.data = bytes.split_to(data);
    Ok(snapshot)
}

/// Decodes one message, which must take up all of `bytes`. The data of its entries are slices of `bytes`.
pub(super) fn decode(mut bytes: Bytes) -> Result<Message, WireError> {
    let length = WireError::Length { bytes: bytes.len() };
    if bytes.len() < FIXED_BYTES {
        return Err(length);
    }
    let (version, kind, reject, _) = (bytes.get_u8(), bytes.get_u8(), bytes.get_u8(), bytes.get_u8());
    if version != VERSION {
        return Err(WireError::Version { found: version });
    }
    let known = KINDS.iter().find(|(number, _)| *number == kind);
    let kind = known.ok_or(WireError::Kind { what: "message", found: kind })?.1;
    let mut message = Message::default();
    message.set_msg_type(kind);
    message.reject = reject != 0;
    message.from = bytes.get_u64_le();
    message.to = bytes.get_u64_le();
    message.term = bytes.get_u64_le();
    message.log_term = bytes.get_u64_le();
    message.index = bytes.get_u64_le();
    message.commit = bytes.get_u64_le();
    message.commit_term = bytes.get_u64_le();
    message.reject_hint = bytes.get_u64_le();
    message.request_snapshot = bytes.get_u64_le();
    message.priority = bytes.get_u64_le().cast_signed();
    let (context, entries) = (bytes.get_u32_le() as usize, bytes.get_u32_le() as usize);
    // Memory for entries never exceeds what arrived.
    if context > CONTEXT_BYTES_MAX.min(bytes.len()) || entries > (bytes.len() - context) / ENTRY_FIXED_BYTES {
        return Err(length);
    }
    message.context = bytes.split_to(context);
    let mut list = Vec::with_capacity(entries);
    for _ in 0..entries {
        list.push(decode_entry(&mut bytes, length)?);
    }
    message.set_entries(list.into());
    if kind == MessageType::MsgSnapshot {
        message.set_snapshot(decode_snapshot(&mut bytes, length)?);
    }
    if !bytes.is_empty() {
        return Err(length);
    }
    let beyond = terms_of(&message).find(|term| *term > TERM_MAX);
    match beyond {
        Some(found) => Err(WireError::Term { found }),
        None => Ok(message),
    }
}

fn terms_of(message: &Message) -> impl Iterator<Item = u64> {
    let own =
        [message.term, message.log_term, message.commit_term, message.get_snapshot().get_metadata().term];
    own.into_iter().chain(message.entries.iter().map(|entry| entry.term))
}

fn decode_entry(bytes: &mut Bytes, length: WireError) -> Result<Entry, WireError> {
    if bytes.len() < ENTRY_FIXED_BYTES {
        return Err(length);
    }
    let kind = bytes.get_u8();
    if kind > OTHER {
        return Err(WireError::Kind { what: "entry", found: kind });
    }
    let (term, index) = (bytes.get_u64_le(), bytes.get_u64_le());
    let mut entry = Entry { term, index, ..Entry::default() };
    let data = bytes.get_u32_le() as usize;
    if data > bytes.len() {
        return Err(length);
    }
    let data = bytes.split_to(data);
    match kind {
        MEMBERS => {
            entry.set_entry_type(EntryType::EntryConfChangeV2);
            entry.data = data;
        }
        OTHER => entry.context = data,
        _ => entry.data = data,
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message() -> impl Strategy<Value = Message> {
        let entry = (BATCH..=OTHER, 0..=TERM_MAX, any::<u64>(), prop::collection::vec(any::<u8>(), 1..40));
        let ids = || prop::collection::vec(any::<u64>(), 0..5);
        let members = (ids(), ids(), ids(), ids(), any::<bool>());
        let snapshot = (any::<u64>(), 0..=TERM_MAX, members, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(index, term, m, data)| {
                let mut snapshot = Snapshot::default();
                let metadata = snapshot.mut_metadata();
                (metadata.index, metadata.term) = (index, term);
                metadata.set_conf_state(from_lists([m.0, m.1, m.2, m.3], m.4));
                snapshot.data = data.into();
                snapshot
            });
        let fields = prop::collection::vec(any::<u64>(), 10);
        let context = prop::collection::vec(any::<u8>(), 0..20);
        let list = prop::collection::vec(entry, 0..5);
        let parts = (0..KINDS.len(), any::<bool>(), fields, context, list, snapshot);
        parts.prop_map(|(kind, reject, f, context, list, snapshot)| {
            let mut message = Message::default();
            message.set_msg_type(KINDS[kind].1);
            message.reject = reject;
            (message.from, message.to, message.term, message.log_term) =
                (f[0], f[1], f[2] % (TERM_MAX + 1), f[3] % (TERM_MAX + 1));
            (message.index, message.commit, message.commit_term) = (f[4], f[5], f[6] % (TERM_MAX + 1));
            (message.reject_hint, message.request_snapshot) = (f[7], f[8]);
            message.priority = f[9].cast_signed();
            message.context = context.into();
            let entries = list.into_iter().map(|(kind, term, index, data)| {
                let mut entry = Entry::default();
                (entry.term, entry.index) = (term, index);
                match kind {
                    OTHER => entry.context = data.into(),
                    _ => entry.data = data.into(),
                }
                if kind == MEMBERS {
                    entry.set_entry_type(EntryType::EntryConfChangeV2);
                }
                entry
            });
            if KINDS[kind].1 == MessageType::MsgSnapshot {
                message.set_snapshot(snapshot);
            }
            message.set_entries(entries.collect::<Vec<_>>().into());
            message
        })
    }

    proptest! {
        #[test]
        fn a_message_comes_back_and_no_part_of_it_does(message in message(), cut in any::<prop::sample::Index>()) {
            let mut bytes = BytesMut::new();
            encode(&message, &mut bytes).unwrap();
            prop_assert_eq!(bytes.len(), encoded_bytes(&message));
            let bytes = bytes.freeze();
            prop_assert_eq!(decode(bytes.clone()), Ok(message));
            prop_assert!(decode(bytes.slice(..cut.index(bytes.len()))).is_err());
            let longer = [&bytes[..], &[0]].concat();
            prop_assert!(decode(longer.into()).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            let _ = decode(bytes.into());
        }

        #[test]
        fn a_message_with_a_wrong_byte_is_read_or_refused(message in message(), byte in any::<u8>()) {
            let mut bytes = BytesMut::new();
            encode(&message, &mut bytes).unwrap();
            for (at, wrong) in (0..bytes.len()).flat_map(|at| [0, byte, u8::MAX].map(|wrong| (at, wrong))) {
                let mut changed = bytes.clone();
                changed[at] = wrong;
                let Ok(read) = decode(changed.freeze()) else { continue };
                let mut again = BytesMut::new();
                encode(&read, &mut again).unwrap();
                prop_assert_eq!(decode(again.freeze()), Ok(read));
            }
        }
    }

    #[test]
    fn a_count_that_lies_takes_no_memory() {
        let mut bytes = BytesMut::new();
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgAppend);
        encode(&message, &mut bytes).unwrap();
        bytes[FIXED_BYTES - 4..].copy_from_slice(&u32::MAX.to_le_bytes());
        let length = bytes.len();
        assert_eq!(decode(bytes.freeze()), Err(WireError::Length { bytes: length }));
    }

    /// A larger term would share its epoch with another term, and one offset could have two records.
    #[test]
    fn a_term_beyond_the_last_epoch_is_no_message() {
        let found = TERM_MAX + 1;
        let entry = Entry { term: found, ..Entry::default() };
        let mut snapshot = Snapshot::default();
        snapshot.mut_metadata().term = found;
        let put: [&dyn Fn(&mut Message); 5] = [
            &|message| message.term = found,
            &|message| message.log_term = found,
            &|message| message.commit_term = found,
            &|message| message.set_entries(vec![entry.clone()].into()),
            &|message| {
                message.set_msg_type(MessageType::MsgSnapshot);
                message.set_snapshot(snapshot.clone());
            },
        ];
        for put in put {
            let (mut message, mut bytes) = (Message::default(), BytesMut::new());
            message.set_msg_type(MessageType::MsgAppend);
            put(&mut message);
            encode(&message, &mut bytes).unwrap();
            assert_eq!(decode(bytes.freeze()), Err(WireError::Term { found }));
        }
    }

    #[test]
    fn what_does_not_leave_a_replica_is_not_encoded() {
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgHup);
        assert_eq!(encode(&message, &mut BytesMut::new()), None);
    }

    /// The seeds of the fuzz target `peer_message`: a message of each kind, as another build wrote it.
    #[test]
    fn the_seeds_of_fuzzing_are_messages_of_every_kind() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/peer_message");
        let mut kinds: Vec<u8> = Vec::new();
        for file in std::fs::read_dir(folder).unwrap() {
            let bytes = Bytes::from(std::fs::read(file.unwrap().path()).unwrap());
            // The seeds also contain membership changes.
            let Ok(message) = decode(bytes.clone()) else { continue };
            kinds.push(bytes[1]);
            let mut again = BytesMut::new();
            encode(&message, &mut again).unwrap();
            assert_eq!(again, bytes);
        }
        kinds.sort_unstable();
        assert!(kinds.iter().eq(KINDS.iter().map(|(kind, _)| kind)), "{kinds:?}");
    }

    /// Read index requests (11), their responses (12), and reports of a lost link (13). The engine of a
    /// leader panics over a request without entries.
    #[test]
    fn what_no_replica_says_to_another_is_no_message() {
        for kind in 11..=13 {
            let mut bytes = BytesMut::new();
            let mut message = Message::default();
            message.set_msg_type(MessageType::MsgHeartbeat);
            encode(&message, &mut bytes).unwrap();
            bytes[1] = kind;
            assert_eq!(decode(bytes.freeze()), Err(WireError::Kind { what: "message", found: kind }));
        }
    }
}
