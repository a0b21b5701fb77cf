//! The members of a group.
//!
//! The entry of a membership change holds the engine's encoding: a `ConfChangeV2` of raft-rs, in Protocol
//! Buffers. It comes from other nodes and from the disk. So it is decoded here, without the engine's parser,
//! which recurses without a bound (RUSTSEC-2024-0437).

use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};

use tailrace_types::ReplicaId;

/// The members of a group as of the last change that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Voters. A majority of them commits.
    pub voters: Vec<ReplicaId>,
    /// Learners. They receive everything and do not count.
    pub learners: Vec<ReplicaId>,
}

/// A membership change. Only one at a time: the next one has to wait until it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// Adds a new replica, which catches up first.
    AddLearner(ReplicaId),
    /// Promotes a learner that has caught up.
    Promote(ReplicaId),
    /// Removes a replica for good. Its id is never used again.
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

/// Field 2 of `ConfChangeV2`, one change: a message. Fields 1 and 3, transition and context, are never set
/// here.
const CHANGES: u8 = 2 << 3 | LENGTH;
/// Field 1 of `ConfChangeSingle`, its kind.
const CHANGE_TYPE: u8 = 1 << 3 | VARINT;
/// Field 2 of `ConfChangeSingle`, the member.
const NODE_ID: u8 = 2 << 3 | VARINT;
/// Wire types of Protocol Buffers.
const VARINT: u8 = 0;
const LENGTH: u8 = 2;

impl MemberChange {
    /// Decodes the data of an entry that was proposed by [`MemberChange::to_raft`]. `None` for anything else:
    /// other fields, a duplicate field, several changes, an unknown kind.
    pub(super) fn decode(data: &[u8]) -> Option<Self> {
        let [CHANGES, length, change @ ..] = data else { return None };
        // Always far shorter than the limit of a one-byte length.
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
        // An absent field is 0.
        let id = ReplicaId(id.unwrap_or(0));
        match kind.unwrap_or(0) {
            0 => Some(Self::Promote(id)),
            1 => Some(Self::Remove(id)),
            2 => Some(Self::AddLearner(id)),
            _ => None,
        }
    }
}

/// Decodes a varint and returns it with the rest: groups of seven bits, the lowest first. `None` if it is
/// truncated or has more than 64 bits.
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

        /// Whatever this decoder accepts, the engine's own parser reads the same way.
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
            // No change.
            &[CHANGES],
            // A transition.
            &[1 << 3, 1],
            // Two changes.
            &[CHANGES, 2, NODE_ID, 1, CHANGES, 2, NODE_ID, 2],
            // A context.
            &[CHANGES, 2, NODE_ID, 1, 3 << 3 | LENGTH, 0],
            // A kind that does not exist.
            &[CHANGES, 4, CHANGE_TYPE, 3, NODE_ID, 1],
            // A field that comes twice. Found by fuzzing: the engine refuses the kind that is overridden.
            &[CHANGES, 6, CHANGE_TYPE, 8, CHANGE_TYPE, 2, NODE_ID, 1],
            // More than 64 bits.
            &[CHANGES, 11, NODE_ID, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
            // Nested groups, which crash the engine's parser.
            &[0x0b; 100_000],
        ];
        for bytes in refused {
            assert_eq!(MemberChange::decode(bytes), None, "{:?}", &bytes[..bytes.len().min(20)]);
        }
    }
}
