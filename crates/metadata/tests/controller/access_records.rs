//! Records about users, rules and quotas: damaged and contradictory ones are refused, and the version never
//! goes back.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_identity::quota::{QuotaEntity, QuotaKey};
use tailrace_metadata::*;
use tailrace_types::TimestampMs;

use crate::access_rig::{
    Sha256, Sha512, acl, delete, encodings, limits, named, quota, remove, set, verifier,
};
use crate::cluster_rig::Rig;

fn stamp() -> Stamp {
    Stamp { at: TimestampMs(1), by: "User:admin".to_owned() }
}

/// Returns the encoding of the record number `record`, with the first `from` replaced.
fn edited(record: usize, from: &str, to: &str) -> String {
    let text = encodings()[record].1;
    assert!(text.contains(from), "{text}");
    text.replacen(from, to, 1)
}

#[test]
fn an_older_tailrace_refuses_records_about_access_by_their_version() {
    for (record, text) in encodings() {
        assert!(text.starts_with(r#"{"version":4,"#), "{record:?}");
        let older = text.replacen("\"version\":4", "\"version\":3", 1);
        let error = MetadataRecord::decode(older.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "metadata record cannot be read: it has version 3, expected 4");
    }
}

#[test]
fn damaged_records_about_access_are_refused() {
    let many = |count: usize| {
        let rule = |number: usize| {
            format!(
                r#"{{"kind":"topic","name":"{number}","pattern":"literal","principal":"User:a","host":"*","operation":"read","permission":"allow"}}"#
            )
        };
        let rules: Vec<_> = (0..count).map(rule).collect();
        format!(r#"{{"version":4,"type":"acls-changed","added":[{}],"removed":[]}}"#, rules.join(","))
    };
    let rule = r#"{"kind":"topic","name":"orders","pattern":"literal","principal":"User:alice","host":"*","operation":"read","permission":"allow"}"#;
    let key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let (long, longer) = ("x".repeat(256), "x".repeat(1_025));
    let cases = [
        (edited(0, "alice", ""), "its name has 0 bytes, not 1 to 255"),
        (edited(0, "alice", &long), "its name has 256 bytes, not 1 to 255"),
        (edited(2, "alice", &long), "its name has 256 bytes"),
        (edited(0, "SCRAM-SHA-256", "SCRAM-SHA-1"), "its mechanism is none that this build knows"),
        (edited(0, "SCRAM-SHA-256", "SCRAM-SHA-512"), "have 64 bytes, not 32"),
        (
            edited(0, "SCRAM-SHA-256\",\"salt\":\"c2FsdA==", "SCRAM-SHA-256\",\"salt\":\""),
            "A salt has 1 to 255 bytes",
        ),
        (edited(0, "c2FsdA==", "c2FsdA"), "its salt is not base64"),
        (edited(0, "c2FsdA==", "c2FsdB=="), "its salt is not base64"),
        (edited(0, "c2FsdA==", &"AAAA".repeat(86)), "its salt is not base64 of at most 255 bytes"),
        (edited(0, "4096", "4095"), "Too few iterations"),
        (edited(0, "4096", "16385"), "Too many iterations"),
        (edited(0, key, "AQE="), "have 32 bytes, not 2"),
        (edited(0, key, &key.replace('=', "?")), "its stored key is not base64"),
        (edited(0, key, &key.repeat(20)), "its stored key is not base64"),
        (edited(0, "User:admin", ""), "its principal has 0 bytes, not 1 to 1024"),
        (edited(1, "User:admin", &longer), "its principal has 1025 bytes"),
        (edited(3, r#""name":"orders""#, r#""name":"""#), "its name has 0 bytes, not 1 to 1024"),
        (edited(3, "orders", &longer), "its name has 1025 bytes"),
        (edited(3, "User:alice", ""), "its principal has 0 bytes"),
        (edited(3, r#""host":"*""#, r#""host":"""#), "its host has 0 bytes"),
        (edited(3, r#""kind":"topic""#, r#""kind":"table""#), "its kind of resource is none"),
        (edited(3, "literal", "match"), "its kind of pattern is none"),
        (edited(3, r#""operation":"read""#, r#""operation":"any""#), "its operation is none"),
        (edited(3, r#""permission":"allow""#, r#""permission":"maybe""#), "its permission is none"),
        (edited(3, rule, &format!("{rule},{rule}")), "a rule occurs twice"),
        (many(10_001), "it has 10001 rules, expected at most 10000"),
        (edited(7, "lWqVzAlQQxKcnbfmFZsVdw", ""), "its id has 0 bytes, not 1 to 64"),
        (edited(7, "lWqVzAlQQxKcnbfmFZsVdw", &"x".repeat(65)), "its id has 65 bytes, not 1 to 64"),
        (edited(7, "alice", &long), "its user has 256 bytes, not 1 to 255"),
        (edited(7, "bob", ""), "its user has 0 bytes, not 1 to 255"),
        (edited(7, r#"["bob"]"#, &format!("[{}]", [r#""b""#; 101].join(","))), "it has 101 renewers"),
        (edited(8, "lWqVzAlQQxKcnbfmFZsVdw", ""), "its id has 0 bytes"),
        (edited(4, r#"{"user":{"named":"alice"},"client_id":"default"}"#, "{}"), "its entity is neither"),
        (edited(4, r#""client_id":"#, r#""ip":"#), "its entity is neither"),
        (edited(4, "alice", ""), "its entity has 0 bytes"),
        (edited(4, "alice", &long), "its entity has 256 bytes, not 1 to 255"),
        (edited(4, "producer_byte_rate", "bytes"), "its key of a limit is none"),
        (edited(4, "1048576", "1.5"), "its limit for producer_byte_rate is invalid"),
        (edited(4, "1048576", "0"), "its limit for producer_byte_rate is invalid"),
        (edited(4, "12.5", "-1"), "its limit for request_percentage is invalid"),
    ];
    for (text, words) in cases {
        let error = MetadataRecord::decode(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("metadata record cannot be read: ") && error.contains(words), "{error}");
    }
    assert!(MetadataRecord::decode(many(10_000).as_bytes()).is_ok());
    // Unlike in older records, a field that is unknown is an error.
    for (record, field) in
        [(0, "\"name\":"), (0, "\"iterations\":"), (1, "\"at\":"), (3, "\"host\":"), (4, "\"user\":")]
    {
        let text = edited(record, field, &format!("\"more\":1,{field}"));
        let error = MetadataRecord::decode(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("a field is unknown, missing, or not of its type"), "{text}: {error}");
    }
}

/// A mechanism has one credential, and an older one of the same mechanism.
#[test]
fn credentials_out_of_order_are_refused() {
    let credential = |mechanism, password| StoredCredential {
        verifier: verifier(mechanism, password),
        set: stamp(),
        previous: None,
    };
    let older = PreviousCredential { verifier: verifier(Sha512, 5), valid_until: TimestampMs(9) };
    let other = StoredCredential { previous: Some(older), ..credential(Sha256, 1) };
    let mut rig = Rig::alone();
    for credentials in [
        vec![credential(Sha256, 1), credential(Sha256, 2)],
        vec![credential(Sha512, 1), credential(Sha256, 2)],
        vec![other],
    ] {
        let record =
            MetadataRecord::User(StoredUser { name: "alice".to_owned(), disabled: None, credentials });
        assert_eq!(
            rig.contradiction(&record),
            "metadata record stores user 'alice' with inconsistent credentials"
        );
        let error = MetadataRecord::decode(&record.encode()).unwrap_err().to_string();
        assert!(error.contains("at most one for each mechanism, ordered by mechanism"), "{error}");
    }
}

/// A damaged record may have a key where another value belongs.
#[test]
fn no_error_of_a_record_shows_a_key() {
    let key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    for text in [
        edited(0, "4096", &format!("\"{key}\"")),
        edited(0, "\"SCRAM-SHA-256\"", &format!("\"{key}\"")),
        edited(0, "\"iterations\"", &format!("\"{key}\"")),
        edited(0, "c2FsdA==", &format!("{key}?")),
        edited(0, key, &key[1..]),
        edited(0, &format!("\"{key}\""), &format!("[\"{key}\"]")),
        edited(0, r#""at":5"#, &format!(r#""at":"{key}""#)),
        edited(1, "{\"at\":6,\"by\":\"User:admin\"}", &format!("\"{key}\"")),
        encodings()[0].1.trim_end_matches('}').to_owned(),
    ] {
        let error = MetadataRecord::decode(text.as_bytes()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("AQEB"), "{error}");
    }
}

#[test]
fn records_that_contradict_users_rules_or_quotas_are_refused() {
    let mut rig = Rig::alone();
    rig.run(&set("alice", Sha256, 1, None, 1)).unwrap();
    rig.run(&Command::CreateAcls(vec![acl("a"), acl("b")])).unwrap();
    let rules = |names: &[&str]| names.iter().map(|name| acl(name)).collect::<BTreeSet<_>>();
    let changed = |added: &[&str], removed: &[&str]| MetadataRecord::AclsChanged {
        added: rules(added),
        removed: rules(removed),
    };
    let entity = QuotaEntity { user: named("alice"), ..QuotaEntity::default() };
    let empty = StoredUser { name: "bob".to_owned(), disabled: None, credentials: Vec::new() };
    let cases = [
        (MetadataRecord::User(empty), "stores user 'bob' without a credential, who is not disabled"),
        (MetadataRecord::UserRemoved { name: "b\n".to_owned() }, "removes user 'b\\n', who does not exist"),
        (
            MetadataRecord::TokenRemoved { id: "x\n".to_owned() },
            "removes delegation token 'x\\n', which does not exist",
        ),
        (changed(&[], &[]), "changes the rules, but names none"),
        (changed(&["c", "a"], &[]), "adds a rule that exists already: Acl {"),
        (changed(&["c"], &["a", "d"]), "removes a rule that does not exist: Acl {"),
        (changed(&["c"], &["c"]), "removes a rule that does not exist"),
        (changed(&["a"], &["a"]), "adds a rule that exists already"),
        (
            MetadataRecord::ClientQuota { entity, limits: BTreeMap::new() },
            "removes limits that do not exist, those of QuotaEntity {",
        ),
        (
            MetadataRecord::AccessVersion { version: 1 },
            "sets the version of users, rules and quotas to 1, but it is 2",
        ),
    ];
    for (record, words) in cases {
        let text = rig.contradiction(&record);
        assert!(text.contains(words), "{text}");
    }
    rig.controller.apply(&changed(&["c"], &["a"])).unwrap();
    let names: Vec<_> = rig.image().access().acls().iter().map(|acl| acl.name.clone()).collect();
    assert_eq!(names, ["b", "c"]);
}

/// A cache that is keyed by the version must never find an older content under a version that comes later.
#[test]
fn the_version_grows_with_each_change_and_survives_a_snapshot() {
    let mut rig = Rig::alone();
    let version = |rig: &Rig| rig.image().access().version();
    rig.create("a", 1, 1);
    assert_eq!(version(&rig), 0);
    assert_eq!(rig.controller.snapshot_records().len(), 1, "an older tailrace can read it");
    let entity = QuotaEntity { user: named("alice"), ..QuotaEntity::default() };
    for (number, command) in [
        set("alice", Sha256, 1, None, 1),
        set("alice", Sha256, 2, None, 2),
        Command::CreateAcls(vec![acl("a"), acl("b")]),
        quota(&entity, &[(QuotaKey::ProducerByteRate, 5.0)], &[]),
        Command::DeleteAcls(vec![acl("a")]),
        quota(&entity, &[], &[QuotaKey::ProducerByteRate]),
        set("bob", Sha512, 3, None, 3),
        remove("bob"),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(rig.run(&command), Ok(1));
        assert_eq!(version(&rig), number as u64 + 1);
    }
    assert_eq!(rig.run(&Command::DeleteAcls(vec![acl("a")])), Ok(0));
    assert_eq!(version(&rig), 8, "nothing changed");
    let snapshot = rig.controller.snapshot_records();
    let mut restored = Rig::replay(&[], &snapshot);
    assert_eq!((restored.image(), restored.controller.snapshot_records()), (rig.image(), snapshot));
    restored.run(&delete("alice", Sha256, 9)).unwrap();
    assert_eq!(version(&restored), 9);
    // Even if nothing is left, what was seen under an older version must not come back.
    restored.run(&Command::DeleteAcls(vec![acl("b")])).unwrap();
    let restored = Rig::replay(&[], &restored.controller.snapshot_records());
    let image = restored.image();
    assert_eq!((image.access().users().len(), image.access().acls().len()), (0, 0));
    assert_eq!(image.access().version(), 10);
}

#[test]
fn a_published_image_never_changes_and_its_clones_share_what_it_has() {
    let mut rig = Rig::alone();
    rig.run(&set("alice", Sha256, 1, None, 1)).unwrap();
    rig.run(&Command::CreateAcls(vec![acl("a")])).unwrap();
    let before = rig.image();
    let kept = before.access().user("alice").unwrap().clone();
    rig.run(&set("bob", Sha256, 2, None, 2)).unwrap();
    let after = rig.image();
    assert!(std::sync::Arc::ptr_eq(before.access().acls(), after.access().acls()), "no rule changed");
    assert!(std::sync::Arc::ptr_eq(&kept, after.access().user("alice").unwrap()), "she did not change");
    assert!(before.access().user("bob").is_none());
    let entity = QuotaEntity { user: named("alice"), ..QuotaEntity::default() };
    let set_limits = limits(&[(QuotaKey::ProducerByteRate, 1.0)]);
    rig.controller
        .apply(&MetadataRecord::ClientQuota { entity: entity.clone(), limits: set_limits })
        .unwrap();
    assert!(!after.access().quotas().contains_key(&entity));
    rig.run(&set("alice", Sha256, 3, None, 3)).unwrap();
    assert_ne!(&kept, rig.image().access().user("alice").unwrap());
}
