//! Users: their credentials change, rotate and end, and a disabled user stays disabled.

use tailrace_metadata::*;
use tailrace_types::TimestampMs;

use crate::access_rig::{Sha256, Sha512, alter, delete, disable, remove, set, verifier};
use crate::cluster_rig::{Rig, node};

fn user(rig: &Rig, name: &str) -> Option<StoredUser> {
    rig.image().access().user(name).map(|user| StoredUser::clone(user))
}

/// Returns the numbers of the passwords that are valid at `now`, the newest first.
fn valid(rig: &Rig, name: &str, mechanism: tailrace_identity::scram::ScramMechanism, now: i64) -> Vec<u8> {
    let user = user(rig, name).expect("it exists");
    let Some(credential) = user.credential(mechanism) else { return Vec::new() };
    credential.verifiers(TimestampMs(now)).map(|verifier| verifier.stored_key()[0]).collect()
}

#[test]
fn the_first_user_is_created_only_while_there_is_none() {
    let first = |user: &str, password| Command::CreateFirstUser {
        user: user.to_owned(),
        verifiers: vec![verifier(Sha512, password), verifier(Sha256, password)],
        by: "Node:first-user".to_owned(),
        now: TimestampMs(5),
    };
    let mut rig = Rig::alone();
    assert!(rig.run(&first("a;b", 1)).is_err());
    assert_eq!(rig.run(&first("admin", 1)), Ok(1));
    let mechanisms = user(&rig, "admin").unwrap().credentials;
    assert_eq!(mechanisms.iter().map(|one| one.verifier.mechanism()).collect::<Vec<_>>(), [Sha256, Sha512]);
    rig.run(&set("admin", Sha256, 2, None, 6)).unwrap();
    for late in ["admin", "other"] {
        assert_eq!(rig.run(&first(late, 3)), Ok(0), "the password was changed since");
    }
    assert_eq!(valid(&rig, "admin", Sha256, 7), [2]);
    assert_eq!(first("admin", 1).to_string(), "CreateFirstUser admin");
}

#[test]
fn the_first_credential_makes_a_user_and_the_last_one_ends_it() {
    let mut rig = Rig::alone();
    assert_eq!(rig.run(&set("alice", Sha512, 1, None, 5)), Ok(1));
    assert_eq!(rig.run(&set("alice", Sha256, 3, None, 6)), Ok(1));
    let alice = user(&rig, "alice").unwrap();
    let stamp = |at| Stamp { at: TimestampMs(at), by: "User:admin".to_owned() };
    let credential = |mechanism, password, at| StoredCredential {
        verifier: verifier(mechanism, password),
        set: stamp(at),
        previous: None,
    };
    assert_eq!((alice.name.as_str(), &alice.disabled), ("alice", &None));
    assert_eq!(alice.credentials, [credential(Sha256, 3, 6), credential(Sha512, 1, 5)]);
    assert_eq!(rig.run(&set("alice", Sha256, 3, None, 7)), Ok(0), "nothing changes, not even the time");
    rig.run(&delete("alice", Sha512, 8)).unwrap();
    assert!(valid(&rig, "alice", Sha512, 8).is_empty());
    rig.run(&delete("alice", Sha256, 9)).unwrap();
    assert_eq!((user(&rig, "alice"), rig.image().access().users().len()), (None, 0));
    assert_eq!(rig.log.last(), Some(&MetadataRecord::UserRemoved { name: "alice".to_owned() }));
}

#[test]
fn an_older_password_stays_valid_for_as_long_as_the_change_says() {
    let mut rig = Rig::alone();
    rig.run(&set("alice", Sha256, 1, Some(50), 10)).unwrap();
    assert_eq!(valid(&rig, "alice", Sha256, 11), [1], "there was none before");
    rig.run(&set("alice", Sha256, 2, Some(50), 20)).unwrap();
    assert_eq!(valid(&rig, "alice", Sha256, 49), [2, 1]);
    assert_eq!(valid(&rig, "alice", Sha256, 50), [2]);
    // The command is repeated, because its outcome was unknown. The older password must not be lost.
    assert_eq!(rig.run(&set("alice", Sha256, 2, Some(50), 21)), Ok(0));
    assert_eq!(rig.run(&set("alice", Sha256, 2, Some(40), 22)), Ok(1), "only the end changes");
    assert_eq!((valid(&rig, "alice", Sha256, 39), valid(&rig, "alice", Sha256, 40)), (vec![2, 1], vec![2]));
    assert_eq!(user(&rig, "alice").unwrap().credentials[0].set.at, TimestampMs(20));
    // Only one older password is kept.
    rig.run(&set("alice", Sha256, 3, Some(60), 30)).unwrap();
    assert_eq!(valid(&rig, "alice", Sha256, 30), [3, 2]);
    assert_eq!(rig.run(&set("alice", Sha256, 3, None, 31)), Ok(1));
    assert_eq!(valid(&rig, "alice", Sha256, 31), [3], "it can be ended before its time");
    rig.run(&set("alice", Sha256, 4, Some(60), 32)).unwrap();
    rig.run(&set("alice", Sha256, 5, None, 33)).unwrap();
    assert_eq!(valid(&rig, "alice", Sha256, 33), [5], "a change that keeps nothing ends all others");
}

#[test]
fn an_older_password_that_has_ended_is_forgotten_at_the_next_change() {
    let mut rig = Rig::alone();
    rig.run(&set("alice", Sha256, 1, None, 1)).unwrap();
    rig.run(&set("alice", Sha256, 2, Some(50), 2)).unwrap();
    rig.run(&set("alice", Sha512, 3, None, 49)).unwrap();
    assert!(user(&rig, "alice").unwrap().credentials[0].previous.is_some());
    rig.run(&set("alice", Sha512, 4, None, 50)).unwrap();
    assert_eq!(user(&rig, "alice").unwrap().credentials[0].previous, None);
    // A repeated command must not make it valid again.
    rig.run(&set("alice", Sha256, 6, Some(55), 51)).unwrap();
    assert_eq!(rig.run(&set("alice", Sha256, 6, Some(90), 55)), Ok(1));
    assert_eq!(user(&rig, "alice").unwrap().credentials[0].previous, None);
    // The older credential goes with the newer one.
    rig.run(&set("alice", Sha256, 5, Some(90), 60)).unwrap();
    rig.run(&delete("alice", Sha256, 61)).unwrap();
    assert!(valid(&rig, "alice", Sha256, 61).is_empty());
}

/// A password that is set again must not let a disabled user in.
#[test]
fn a_disabled_user_stays_disabled_until_it_is_enabled() {
    let mut rig = Rig::alone();
    rig.run(&set("alice", Sha256, 1, None, 1)).unwrap();
    assert_eq!(rig.run(&disable("alice", true, 5)), Ok(1));
    assert_eq!(rig.run(&disable("alice", true, 6)), Ok(0));
    let disabled = |rig: &Rig| user(rig, "alice").unwrap().disabled;
    let stamp = Some(Stamp { at: TimestampMs(5), by: "User:admin".to_owned() });
    assert_eq!(disabled(&rig), stamp);
    rig.run(&delete("alice", Sha256, 7)).unwrap();
    rig.run(&set("alice", Sha256, 2, None, 8)).unwrap();
    assert_eq!(disabled(&rig), stamp);
    rig.run(&disable("alice", false, 9)).unwrap();
    assert_eq!((disabled(&rig), valid(&rig, "alice", Sha256, 9)), (None, vec![2]));
    // Without any credential, only the mark was left.
    rig.run(&disable("alice", true, 10)).unwrap();
    rig.run(&delete("alice", Sha256, 11)).unwrap();
    rig.run(&disable("alice", false, 12)).unwrap();
    assert_eq!(user(&rig, "alice"), None);
    rig.run(&set("bob", Sha256, 1, None, 13)).unwrap();
    rig.run(&disable("bob", true, 14)).unwrap();
    rig.run(&remove("bob")).unwrap();
    assert_eq!(user(&rig, "bob"), None);
}

#[test]
fn users_that_are_refused() {
    let mut rig = Rig::alone();
    rig.run(&set("alice", Sha256, 1, None, 1)).unwrap();
    let long = "ü".repeat(128);
    for (name, words) in [
        ("", "Username must not be empty"),
        ("*", "Username must not be *, which stands for all users in rules"),
        ("ANONYMOUS", "Username must not be ANONYMOUS, which stands for clients without a login"),
        (&long, "Username must not have more than 255 bytes"),
        ("a\nb", "Username must not contain control characters"),
        ("a\u{85}b", "Username must not contain control characters"),
        ("a;User:b", "Username must not contain ;, which separates names in super.users"),
    ] {
        for command in [set(name, Sha256, 1, None, 1), delete(name, Sha256, 1)] {
            assert_eq!(rig.refusal(&command), words);
            assert_eq!(rig.run(&command).unwrap_err().kind(), ControlErrorKind::UnacceptableCredential);
        }
    }
    rig.run(&set(&long[..254], Sha256, 1, None, 1)).unwrap();
    rig.run(&set("anonymous", Sha256, 1, None, 1)).unwrap();
    for (command, words) in [
        (delete("alice", Sha512, 1), "Attempt to delete a user credential that does not exist"),
        (delete("carol", Sha256, 1), "Attempt to delete a user credential that does not exist"),
        (remove("carol"), "There is no user of this name."),
        (remove(""), "There is no user of this name."),
        (disable("carol", true, 1), "There is no user of this name."),
        (disable("carol", false, 1), "There is no user of this name."),
    ] {
        assert_eq!(rig.refusal(&command), words);
        assert_eq!(rig.run(&command).unwrap_err().kind(), ControlErrorKind::ResourceNotFound);
    }
    for (command, words) in [
        (set("alice", Sha256, 2, Some(7), 7), "The older credential must stay valid until a time after now."),
        (set("alice", Sha256, 1, Some(i64::MIN), 7), "must stay valid until a time after now"),
        (by(""), "The principal of a change has 1 to 1024 bytes and no control characters."),
        (by(&"x".repeat(1_025)), "has 1 to 1024 bytes"),
        (by("User:a\rb"), "no control characters"),
        (
            Command::DisableUser {
                user: "alice".to_owned(),
                disabled: true,
                by: "\0".to_owned(),
                now: TimestampMs(1),
            },
            "no control characters",
        ),
    ] {
        let text = rig.refusal(&command);
        assert!(text.contains(words), "{text}");
        assert_eq!(rig.run(&command).unwrap_err().kind(), ControlErrorKind::InvalidRequest);
    }
}

/// Returns the command that this principal sends.
fn by(principal: &str) -> Command {
    let change = ScramChange::Delete { mechanism: Sha256 };
    match alter("alice", change, 1) {
        Command::AlterScramCredential { user, change, now, .. } => {
            Command::AlterScramCredential { user, change, by: principal.to_owned(), now }
        }
        other => other,
    }
}

#[test]
fn there_are_at_most_100_000_users() {
    let mut rig = Rig::alone();
    let name = |number| format!("user-{number}");
    for number in 0..99_999 {
        let disabled = Some(Stamp { at: TimestampMs(1), by: "User:admin".to_owned() });
        let user = StoredUser { name: name(number), disabled, credentials: Vec::new() };
        rig.controller.apply(&MetadataRecord::User(user)).expect("legal");
    }
    rig.run(&set("alice", Sha256, 1, None, 1)).unwrap();
    let full = "There are 100000 users already; remove other users first.";
    assert_eq!(rig.refusal(&set("bob", Sha256, 1, None, 1)), full);
    assert_eq!(rig.run(&set("bob", Sha256, 1, None, 1)).unwrap_err().kind(), ControlErrorKind::Policy);
    rig.run(&set("alice", Sha512, 1, None, 1)).expect("she is there already");
    rig.run(&remove(&name(7))).unwrap();
    rig.run(&set("bob", Sha256, 1, None, 1)).unwrap();
}

/// A cluster that older builds can join must not have records that they cannot read.
#[test]
fn below_level_2_users_rules_and_quotas_are_refused() {
    let at = |id, levels| RegisterNode { levels, ..node(id) };
    let found = |levels| Command::FoundCluster { cluster_id: "c".to_owned(), node: at(1, levels) };
    let commands = [
        set("alice", Sha256, 1, None, 1),
        delete("alice", Sha256, 1),
        disable("alice", true, 1),
        remove("alice"),
        Command::CreateAcls(Vec::new()),
        Command::DeleteAcls(Vec::new()),
        crate::access_rig::quota(&Default::default(), &[], &[]),
    ];
    let mut rig = Rig::alone();
    rig.run(&found((1, 1))).unwrap();
    for command in &commands {
        assert_eq!(
            rig.refusal(command),
            "Users, rules, quotas and streams need level 2 of the protocol between nodes, and the cluster is at 1; start the newer build on every node, then run kafka-features upgrade --feature tailrace.cluster.level=2."
        );
        let error = rig.run(command).unwrap_err();
        assert_eq!(
            (error.kind(), command.check_level(&rig.image())),
            (ControlErrorKind::UnsupportedLevel, Err(error))
        );
    }
    assert_eq!(Command::Barrier.check_level(&rig.image()), Ok(()));
    rig.run(&Command::RegisterNode(at(1, (1, ACCESS_LEVEL)))).unwrap();
    assert!(rig.refusal(&commands[0]).contains("the cluster is at 1"), "the build alone is not enough");
    let raise =
        FeatureUpdate { name: CLUSTER_LEVEL.to_owned(), level: 2, direction: FeatureDirection::Upgrade };
    rig.run(&Command::UpdateFeatures(vec![raise])).unwrap();
    rig.run(&commands[0]).unwrap();
    // A standalone server has no level. What it has comes along when it founds a cluster.
    let mut rig = Rig::alone();
    rig.run(&commands[0]).unwrap();
    rig.run(&remove("alice")).unwrap();
    assert_eq!(
        rig.refusal(&found((1, 1))),
        "Node 1 cannot be registered: its levels of the protocol between nodes are too low for the users, rules or quotas it has."
    );
    rig.run(&found((1, 2))).unwrap();
    rig.run(&commands[0]).unwrap();
}

#[test]
fn no_text_shows_a_key() {
    let mut rig = Rig::alone();
    // Each key is one byte, repeated: 83 is S, and U1NT in base64.
    let change = set("alice", Sha256, 83, None, 1);
    rig.run(&change).unwrap();
    rig.run(&set("alice", Sha256, 84, Some(9), 1)).unwrap();
    let texts = [
        format!("{change}"),
        format!("{change:?}"),
        format!("{:?}", rig.log),
        format!("{:?}", rig.image()),
        format!("{:?}", rig.controller),
    ];
    for text in texts {
        assert!(text.contains("alice"), "{text}");
        for key in ["SSS", "TTT", "U1NT", "VFRU", "83, 83", "84, 84", "5353", "5454"] {
            assert!(!text.contains(key), "{text}");
        }
    }
    assert_eq!(change.to_string(), "AlterScramCredential alice, set SCRAM-SHA-256");
    assert_eq!(delete("a\n", Sha512, 1).to_string(), "AlterScramCredential a\\n, delete SCRAM-SHA-512");
    assert_eq!(disable("alice", true, 1).to_string(), "DisableUser alice");
    assert_eq!(disable("alice", false, 1).to_string(), "DisableUser alice, who is enabled again");
    assert_eq!(remove("alice").to_string(), "RemoveUser alice");
}
