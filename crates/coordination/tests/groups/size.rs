//! Large groups: the size of a rebalance's records grows with the number of members, not with its square.
//! Benchmarks measure its duration.

use std::collections::BTreeMap;

use crate::rig::{Logged, Rig, shared, subscription};
use bytes::Bytes;
use tailrace_coordination::groups::{
    ClassicEvent, ClassicReply, ClientIdentity, GroupEvent, GroupKind, GroupReply, GroupState, JoinAbilities,
    JoinRequest, MemberReference, SyncRequest,
};

fn join(rig: &mut Rig, fresh: &str, member: &str) -> usize {
    let token = rig.token();
    let request = JoinRequest {
        client: ClientIdentity::default(),
        member: shared(member),
        fresh_member: shared(fresh),
        instance: None,
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![("range".to_owned(), subscription(&["t"]))],
        abilities: JoinAbilities::default(),
    };
    let event = ClassicEvent::Join(request);
    rig.step(GroupEvent::Classic { token, group: shared("g"), event }).replies.len()
}

fn sync(
    rig: &mut Rig,
    member: &str,
    generation: i32,
    assignments: Vec<(std::sync::Arc<str>, Bytes)>,
) -> usize {
    let token = rig.token();
    let by = MemberReference { member: shared(member), instance: None, generation };
    let event = ClassicEvent::Sync(SyncRequest { by, protocol_type: None, protocol: None, assignments });
    let effects = rig.step(GroupEvent::Classic { token, group: shared("g"), event });
    let ok = |reply: &GroupReply| matches!(reply, GroupReply::Classic(ClassicReply::Sync(Ok(_))));
    assert!(effects.replies.iter().all(|(_, reply)| ok(reply)));
    effects.replies.len()
}

/// Returns the bytes and records of the log.
fn written(rig: &Rig) -> (usize, usize) {
    let bytes = rig.log.iter().map(|logged| match logged {
        Logged::Record { record, .. } => record.key.len() + record.value.as_ref().map_or(0, Bytes::len),
        Logged::Marker { .. } => 0,
    });
    (bytes.sum(), rig.log.len())
}

/// Forms a group, rebalances it, and replays it. Returns the bytes and records that it wrote.
fn life_of_a_group(members: usize) -> (usize, usize) {
    let settings = BTreeMap::from([("group.initial.rebalance.delay.ms".to_owned(), "100".to_owned())]);
    let mut rig = Rig::new(settings);
    let names: Vec<_> = (0..members).map(|number| format!("member-{number:06}")).collect();
    for name in &names {
        assert_eq!(join(&mut rig, name, ""), 0);
    }
    let joined: usize = rig.advance(1_000).iter().map(|(_, effects)| effects.replies.len()).sum();
    assert_eq!(joined, members);
    for generation in 1..=2 {
        for name in &names[1..] {
            assert_eq!(sync(&mut rig, name, generation, Vec::new()), 0);
        }
        let assignment = |name: &String| (shared(name), Bytes::from_static(b"some partitions"));
        assert_eq!(sync(&mut rig, &names[0], generation, names.iter().map(assignment).collect()), members);
        if generation == 1 {
            let answered: usize = names.iter().map(|name| join(&mut rig, "", name)).sum();
            assert_eq!(answered, members, "all at once, when the last has joined");
        }
    }
    let effects = rig.restart();
    assert!(effects.appends.is_empty() && effects.replies.is_empty());
    let census: Vec<_> = rig.core.census().into_iter().collect();
    assert_eq!(census, [((GroupKind::Classic, GroupState::Stable), 1)]);
    written(&rig)
}

#[test]
fn ten_times_the_members_write_ten_times_as_much() {
    let (small, small_records) = life_of_a_group(500);
    let (large, large_records) = life_of_a_group(5_000);
    // One record for the whole group in each generation. Members that come or go in between write none.
    assert_eq!((small_records, large_records), (2, 2));
    // It would be a hundred times as much if it were quadratic.
    assert!(large < small * 11, "500 members write {small} bytes, 5,000 write {large}");
}
