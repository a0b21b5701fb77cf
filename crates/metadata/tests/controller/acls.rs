//! Rules: they are created once, deleted exactly, and refused as a whole.

use tailrace_identity::acl::{Acl, ResourceKind};
use tailrace_metadata::*;

use crate::access_rig::acl;
use crate::cluster_rig::Rig;

fn names(rig: &Rig) -> Vec<String> {
    rig.image().access().acls().iter().map(|acl| acl.name.clone()).collect()
}

fn numbered(numbers: std::ops::Range<usize>) -> Vec<Acl> {
    numbers.map(|number| acl(&format!("topic-{number}"))).collect()
}

#[test]
fn rules_are_created_once_and_deleted_exactly() {
    let mut rig = Rig::alone();
    assert_eq!(rig.run(&Command::CreateAcls(vec![acl("b"), acl("a"), acl("b")])), Ok(1));
    assert_eq!(names(&rig), ["a", "b"]);
    assert_eq!(rig.run(&Command::CreateAcls(vec![acl("a")])), Ok(0), "a duplicate is no error");
    rig.run(&Command::CreateAcls(vec![acl("a"), acl("c")])).unwrap();
    let added = |record: &MetadataRecord| match record {
        MetadataRecord::AclsChanged { added, .. } => added.len(),
        _ => 0,
    };
    assert_eq!(rig.log.iter().map(added).collect::<Vec<_>>(), [2, 1], "only what is new is written");
    let almost = Acl { host: "10.0.0.1".to_owned(), ..acl("a") };
    assert_eq!(rig.run(&Command::DeleteAcls(vec![almost])), Ok(0), "there is no such rule");
    assert_eq!(rig.run(&Command::DeleteAcls(vec![acl("a"), acl("x"), acl("c"), acl("a")])), Ok(1));
    assert_eq!(names(&rig), ["b"]);
    for nothing in [Command::CreateAcls(Vec::new()), Command::DeleteAcls(Vec::new())] {
        assert_eq!(rig.run(&nothing), Ok(0));
    }
    assert_eq!(Command::CreateAcls(vec![acl("a")]).to_string(), "CreateAcls, 1 of them");
    assert_eq!(Command::DeleteAcls(vec![]).to_string(), "DeleteAcls, 0 of them");
}

#[test]
fn rules_that_are_refused() {
    let mut rig = Rig::alone();
    let long = "x".repeat(1_025);
    for (broken, words) in [
        (acl(""), "Invalid empty resource name"),
        (acl(&long), "The name of a resource has at most 1024 bytes"),
        (acl("a\nb"), "A resource name has no control characters"),
        (
            Acl { kind: ResourceKind::Cluster, ..acl("c") },
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (Acl { principal: "alice".to_owned(), ..acl("a") }, "Could not parse principal from `alice`"),
        (Acl { principal: format!("User:{long}"), ..acl("a") }, "A principal has at most 1024 bytes"),
        (Acl { principal: "User:a\0".to_owned(), ..acl("a") }, "A principal has no control characters"),
        (Acl { host: String::new(), ..acl("a") }, "is neither an address"),
        (Acl { host: long.clone(), ..acl("a") }, "is neither an address"),
    ] {
        let command = Command::CreateAcls(vec![acl("fine"), broken]);
        let text = rig.refusal(&command);
        assert!(text.contains(words), "{text}");
        assert_eq!(rig.run(&command).unwrap_err().kind(), ControlErrorKind::InvalidRequest);
    }
    let longest = Acl { principal: format!("User:{}", &long[..1_019]), ..acl(&long[..1_024]) };
    rig.run(&Command::CreateAcls(vec![longest])).unwrap();
    rig.run(&Command::CreateAcls(vec![Acl { kind: ResourceKind::Cluster, ..acl("kafka-cluster") }])).unwrap();
}

#[test]
fn a_command_changes_at_most_10_000_rules_of_4_mib() {
    let mut rig = Rig::alone();
    let many = numbered(0..10_001);
    let long: Vec<Acl> = (0..4_097).map(|number| acl(&format!("{number:01013}"))).collect();
    for too_much in [many, long] {
        for command in [Command::CreateAcls(too_much.clone()), Command::DeleteAcls(too_much.clone())] {
            assert_eq!(
                rig.refusal(&command),
                "A request may change at most 10000 rules with 4194304 bytes of text; send several requests."
            );
            assert_eq!(rig.run(&command).unwrap_err().kind(), ControlErrorKind::InvalidRequest);
        }
        // One less is fine. Each of the long rules has 1,024 bytes: its name, User:alice and *.
        rig.run(&Command::CreateAcls(too_much[1..].to_vec())).unwrap();
        rig.run(&Command::DeleteAcls(too_much[1..].to_vec())).unwrap();
        assert_eq!(names(&rig).len(), 0);
    }
}

#[test]
fn there_are_at_most_100_000_rules() {
    let mut rig = Rig::alone();
    for begin in (0..100_000).step_by(10_000) {
        let added = numbered(begin..begin + 10_000).into_iter().collect();
        rig.controller.apply(&MetadataRecord::AclsChanged { added, removed: Default::default() }).unwrap();
    }
    let more = Command::CreateAcls(vec![acl("one"), acl("topic-5"), acl("two")]);
    let full = "There are 100000 rules, and 2 more would exceed 100000; delete other rules first.";
    assert_eq!(rig.refusal(&more), full);
    assert_eq!(rig.run(&more).unwrap_err().kind(), ControlErrorKind::Policy);
    assert_eq!(rig.run(&Command::CreateAcls(numbered(0..3))), Ok(0), "they exist");
    // The snapshot splits them. Its records are not larger than others.
    let snapshot = rig.controller.snapshot_records();
    assert_eq!(snapshot.len(), 11);
    assert_eq!(Rig::replay(&[], &snapshot).image(), rig.image());
    rig.run(&Command::DeleteAcls(numbered(0..2))).unwrap();
    rig.run(&more).unwrap();
}
