//! Who belongs to a group.
//!
//! The entry of a change holds what the engine has made of it: a `ConfChangeV2` of raft-rs, in Protocol Buffers. It comes from other
//! nodes and from the disk, so it is read here, without the engine's parser, which recurses without a bound (RUSTSEC-2024-0437).

use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};

use tailrace_types::ReplicaId;

/// The members of a group as of the last change that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// They vote, and a majority of them commits.
    pub voters: Vec<ReplicaId>,
    /// They are sent everything and do not count.
    pub learners: Vec<ReplicaId>,
}

/// A change of the members. One at a time; the next one only when it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// A new replica that catches up first.
    AddLearner(ReplicaId),
    /// A learner that has caught up.
    Promote(ReplicaId),
    /// It is gone for good: its id is never used again.
    Remove(ReplicaId),
}

impl MemberChange {
    pub(super) fn to_raft(self) -> ConfChangeV2 {
        let (kind, id) = match self {
            Self::AddLearner(id) => (ConfChangeType::AddLearnerNode, id),
            Self::Promote(id) => (ConfChangeType::AddNode, id),
            Self::Remove(id) => (ConfChangeType::RemoveNode, id),
        };
        let mut single = ConfChangeSingle::default();
        single.set_change_type(kind);
        single.node_id = id.0;
        let mut change = ConfChangeV2::default();
        change.set_changes(vec![single].into());
        change
    }
}

/// Field 2 of `ConfChangeV2`, one change: a message. Fields 1 and 3, transition and context, are never set here.
const CHANGES: u8 = 2 << 3 | LENGTH;
/// Field 1 of `ConfChangeSingle`, its kind.
const CHANGE_TYPE: u8 = 1 << 3 | VARINT;
/// Field 2 of `ConfChangeSingle`, whom it is about.
const NODE_ID: u8 = 2 << 3 | VARINT;
/// Wire types of Protocol Buffers.
const VARINT: u8 = 0;
const LENGTH: u8 = 2;

impl MemberChange {
    /// Reads the data of an entry that [`MemberChange::to_raft`] was proposed in. `None` for anything else: other fields, a field that
    /// comes twice, several changes, a kind that does not exist.
    pub(super) fn decode(data: &[u8]) -> Option<Self> {
        let [CHANGES, length, change @ ..] = data else { return None };
        // It is far shorter than what one byte of a length can tell.
        if usize::from(*length) != change.len() || *length >= 0x80 {
            return None;
        }
        let (mut rest, mut kind, mut id) = (change, None, None);
        while let [field, value @ ..] = rest {
            let (value, after) = varint(value)?;
            let place = match *field {
                CHANGE_TYPE => &mut kind,
                NODE_ID => &mut id,
                _ => return None,
            };
            if place.replace(value).is_some() {
                return None;
            }
            rest = after;
        }
        // What is not there is 0.
        let id = ReplicaId(id.unwrap_or(0));
        match kind.unwrap_or(0) {
            0 => Some(Self::Promote(id)),
            1 => Some(Self::Remove(id)),
            2 => Some(Self::AddLearner(id)),
            _ => None,
        }
    }
}

/// An integer in groups of seven bits, the lowest first, and what follows it. `None` if it is cut off or has more than 64 bits.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        let group = u64::from(byte & 0x7f);
        if index == 9 && group > 1 {
            return None;
        }
        value |= group << (7 * index);
        if byte < 0x80 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

impl Members {
    pub(super) fn of(state: &ConfState) -> Self {
        let ids = |list: &[u64]| list.iter().copied().map(ReplicaId).collect();
        Self { voters: ids(&state.voters), learners: ids(&state.learners) }
    }

    pub(super) fn to_raft(&self) -> ConfState {
        let ids = |list: &[ReplicaId]| list.iter().map(|id| id.0).collect();
        ConfState { voters: ids(&self.voters), learners: ids(&self.learners), ..ConfState::default() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use protobuf::Message as _;

    use super::*;

    fn change() -> impl Strategy<Value = MemberChange> {
        let id = prop_oneof![0..300_u64, any::<u64>()].prop_map(ReplicaId);
        (0..3, id).prop_map(|(kind, id)| match kind {
            0 => MemberChange::AddLearner(id),
            1 => MemberChange::Promote(id),
            _ => MemberChange::Remove(id),
        })
    }

    proptest! {
        #[test]
        fn what_the_engine_writes_comes_back_and_no_part_of_it_does(
            change in change(),
            cut in any::<prop::sample::Index>(),
            more in any::<u8>(),
        ) {
            let bytes = change.to_raft().write_to_bytes().unwrap();
            prop_assert_eq!(MemberChange::decode(&bytes), Some(change));
            prop_assert_eq!(MemberChange::decode(&bytes[..cut.index(bytes.len())]), None);
            prop_assert_eq!(MemberChange::decode(&[&bytes[..], &[more]].concat()), None);
        }

        /// Whatever is read here is what the engine's own parser reads.
        #[test]
        fn other_bytes_are_refused_or_read_as_the_engine_does(mut bytes in prop::collection::vec(0..40_u8, 2..16)) {
            bytes[0] = CHANGES;
            bytes[1] = u8::try_from(bytes.len() - 2).unwrap();
            if let Some(change) = MemberChange::decode(&bytes) {
                prop_assert_eq!(ConfChangeV2::parse_from_bytes(&bytes).ok(), Some(change.to_raft()));
            }
        }
    }

    #[test]
    fn what_is_no_change_of_one_member_is_refused() {
        let refused: [&[u8]; 9] = [
            &[],
            // Nothing is changed.
            &[CHANGES],
            // A transition.
            &[1 << 3, 1],
            // Two changes.
            &[CHANGES, 2, NODE_ID, 1, CHANGES, 2, NODE_ID, 2],
            // A context.
            &[CHANGES, 2, NODE_ID, 1, 3 << 3 | LENGTH, 0],
            // A kind that does not exist.
            &[CHANGES, 4, CHANGE_TYPE, 3, NODE_ID, 1],
            // A field that comes twice: found by fuzzing, as the engine refuses the kind that counts no more.
            &[CHANGES, 6, CHANGE_TYPE, 8, CHANGE_TYPE, 2, NODE_ID, 1],
            // More than 64 bits.
            &[CHANGES, 11, NODE_ID, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
            // Groups within groups, which end the engine's parser.
            &[0x0b; 100_000],
        ];
        for bytes in refused {
            assert_eq!(MemberChange::decode(bytes), None, "{:?}", &bytes[..bytes.len().min(20)]);
        }
    }
}
