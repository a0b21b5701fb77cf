//! Large groups: what a rebalance costs grows with the number of members, not with its square.

mod groups;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use groups::{Rig, shared, subscription};
use tailrace_broker::groups::{
    ClassicEvent, ClassicReply, ClientIdentity, GroupEvent, GroupReply, JoinAbilities, JoinRequest,
    MemberReference, SyncRequest,
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
        reason: None,
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

/// A group forms, is rebalanced, and is replayed.
fn life_of_a_group(members: usize) -> Duration {
    let settings = BTreeMap::from([("group.initial.rebalance.delay.ms".to_owned(), "100".to_owned())]);
    let mut rig = Rig::new(settings);
    let names: Vec<_> = (0..members).map(|number| format!("member-{number:06}")).collect();
    let began = Instant::now();
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
    rig.restart();
    began.elapsed()
}

#[test]
fn ten_times_the_members_take_about_ten_times_as_long() {
    life_of_a_group(100);
    let (small, large) = (life_of_a_group(500), life_of_a_group(5_000));
    assert!(large < Duration::from_secs(30), "5,000 members take {large:?}");
    // A hundred times, if it were quadratic. The machine may be busy.
    assert!(large < small * 50, "500 members take {small:?}, 5,000 take {large:?}");
}
