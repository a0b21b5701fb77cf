//! `tailrace group`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use crate::support::{Server, Wire, failure, run_with, success};
use bytes::Bytes;
use serde_json::{Value, json};
use tailrace_kafka_wire::messages::join_group_request::JoinGroupRequestProtocol;
use tailrace_kafka_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use tailrace_kafka_wire::messages::{
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest, leave_group_request,
};

fn json_of(server: &Server, arguments: &[&str]) -> Value {
    serde_json::from_str(&server.output(&[arguments, &["-o", "json"]].concat())).unwrap()
}

/// Starts a server with a topic of two partitions and ten records in each.
fn prepared(dir: &tempfile::TempDir) -> Server {
    let server = Server::start(&dir.path().join("data"), &["--set", "group.initial.rebalance.delay.ms=0"]);
    server.create("orders", 2);
    for partition in ["0", "1"] {
        server.produce("orders", &["--partition", partition], b"0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    }
    server
}

/// The new offsets of a dry or real run, by partition.
fn offsets(answer: &Value) -> Vec<i64> {
    answer["partitions"].as_array().unwrap().iter().map(|p| p["new_offset"].as_i64().unwrap()).collect()
}

#[test]
fn offsets_are_set_shown_and_deleted_without_any_consumer() {
    let dir = tempfile::tempdir().unwrap();
    let server = prepared(&dir);
    assert_eq!(server.output(&["group", "list", "-o", "json"]), "[]\n");

    let reset =
        |more: &[&str]| json_of(&server, &[&["group", "reset", "g", "--topic", "orders"], more].concat());
    let dry = reset(&["--to-offset", "4"]);
    assert_eq!((&dry["executed"], offsets(&dry)), (&json!(false), vec![4, 4]));
    assert_eq!(dry["partitions"][0]["old_offset"], Value::Null);
    assert_eq!(server.output(&["group", "list", "-o", "json"]), "[]\n", "nothing was changed");

    let done = reset(&["--to-offset", "4", "--execute"]);
    assert_eq!((&done["executed"], offsets(&done)), (&json!(true), vec![4, 4]));
    let listed = json_of(&server, &["group", "list"]);
    assert_eq!(listed[0], json!({ "group": "g", "type": "classic", "state": "Empty", "protocol_type": "" }));
    assert!(server.output(&["group", "list", "--state", "empty", "--type", "classic"]).contains("\ng "));
    assert!(!server.output(&["group", "list", "--type", "share"]).contains('g'));

    let lag = &json_of(&server, &["group", "lag", "g"])[0];
    assert_eq!((&lag["state"], &lag["total_lag"]), (&json!("Empty"), &json!(12)));
    let expected = json!({
        "topic": "orders", "partition": 1, "committed_offset": 4, "end_offset": 10, "lag": 6,
        "member_id": null, "client_id": null, "host": null,
    });
    assert_eq!(lag["partitions"][1], expected);
    assert!(server.output(&["group", "lag"]).contains("g  (classic, Empty, 0 members): lag 12"));
    // A topic that the group has no offsets for. A topic that does not exist is an error (names.rs).
    server.create("other", 1);
    assert_eq!(json_of(&server, &["group", "lag", "g", "--topic", "other"])[0]["partitions"], json!([]));

    for (target, expected) in [
        (&["--to-earliest"][..], [0, 0]),
        (&["--to-latest"], [10, 10]),
        (&["--to-current"], [4, 4]),
        (&["--shift-by", "3"], [7, 7]),
        (&["--shift-by", "-3"], [1, 1]),
        (&["--shift-by", "-30"], [0, 0]),
        (&["--to-offset", "99"], [10, 10]),
        (&["--to-datetime", "2001-01-01"], [0, 0]),
        (&["--by-duration", "1d"], [0, 0]),
    ] {
        assert_eq!(offsets(&reset(target)), expected, "{target:?}");
    }
    let one = json_of(&server, &["group", "reset", "g", "--topic", "orders:1", "--to-latest", "--execute"]);
    assert_eq!(offsets(&one), [10]);
    assert_eq!(json_of(&server, &["group", "lag", "g"])[0]["total_lag"], 6);

    let saved = server.output(&["group", "reset", "g", "--all-topics", "--to-current", "--export"]);
    assert_eq!(saved, "orders,0,4\norders,1,10\n");
    let arguments = ["group", "reset", "h", "--from-file", "-", "--execute", "--bootstrap", &server.kafka];
    success(run_with(&arguments, saved.as_bytes()));
    assert_eq!(json_of(&server, &["group", "lag", "h"])[0]["partitions"][1]["committed_offset"], 10);

    assert_eq!(server.output(&["group", "delete", "g", "--topic", "orders"]), "g: offsets deleted\n");
    assert_eq!(json_of(&server, &["group", "lag", "h"])[0]["total_lag"], 6, "others keep theirs");
    let output = server.run(&["group", "delete", "h", "nope"]);
    let complaint = failure(&output, 1);
    assert!(complaint.contains("there is no group 'nope'"), "{complaint}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "h: deleted\n");
    server.output(&["group", "delete", "h", "--if-exists"]);
    assert!(!server.output(&["group", "list"]).contains("\nh "));
}

#[test]
fn what_cannot_be_done_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let server = prepared(&dir);
    let reason = |arguments: &[&str], status| failure(&server.run(&[&["group"], arguments].concat()), status);
    assert!(reason(&["describe", "nope"], 1).contains("there is no group 'nope'"));
    assert!(reason(&["lag", "nope"], 1).contains("there is no group 'nope'"));
    assert!(reason(&["reset", "g", "--all-topics", "--to-latest"], 1).contains("name topics with --topic"));
    assert!(
        reason(&["reset", "g", "--topic", "nope", "--to-latest"], 1).contains("there is no topic 'nope'")
    );
    assert!(reason(&["reset", "g", "--topic", "orders:7", "--to-latest"], 1).contains("no partition 7"));
    assert!(
        reason(&["reset", "g", "--topic", "orders", "--shift-by", "1"], 1).contains("no offset in orders-0")
    );
    assert!(
        reason(&["reset", "g", "--topic", "orders", "--to-datetime", "soon"], 2).contains("is not a time")
    );
    assert!(reason(&["reset", "g", "--from-file", "/nowhere.csv"], 1).contains("cannot read /nowhere.csv"));
    for wrong in [
        &["reset", "g", "--topic", "orders"][..],
        &["reset", "g", "--to-latest"],
        &["reset", "g", "--topic", "orders", "--to-latest", "--to-earliest"],
        &["reset", "g", "--all-topics", "--to-latest", "--execute", "--dry-run"],
        &["reset", "g", "--topic", "orders:x", "--to-latest"],
        &["delete"],
    ] {
        reason(wrong, 2);
    }
}

/// A minimal consumer of a classic group.
struct Consumer {
    wire: Wire,
    member: String,
}

impl Consumer {
    /// Joins as the only member, and assigns partition 1 of `orders` to itself.
    fn join(server: &Server, group: &str) -> Self {
        let mut consumer = Self { wire: Wire::connect(server), member: String::new() };
        let protocol = JoinGroupRequestProtocol {
            name: "range".to_owned(),
            metadata: Bytes::from_static(b"\0\0\0\0\0\x01\0\x06orders\xff\xff\xff\xff"),
            ..Default::default()
        };
        let join = JoinGroupRequest {
            group_id: group.to_owned(),
            session_timeout_ms: 30_000,
            rebalance_timeout_ms: 30_000,
            protocol_type: "consumer".to_owned(),
            protocols: vec![protocol],
            ..Default::default()
        };
        // Up to this version the first request joins.
        let joined: JoinGroupResponse = consumer.wire.call(3, &join);
        assert_eq!((joined.error_code, &joined.leader), (0, &joined.member_id));
        consumer.member = joined.member_id;
        let assignment = SyncGroupRequestAssignment {
            member_id: consumer.member.clone(),
            assignment: Bytes::from_static(b"\0\0\0\0\0\x01\0\x06orders\0\0\0\x01\0\0\0\x01\xff\xff\xff\xff"),
            ..Default::default()
        };
        let sync = SyncGroupRequest {
            group_id: group.to_owned(),
            generation_id: joined.generation_id,
            member_id: consumer.member.clone(),
            assignments: vec![assignment],
            ..Default::default()
        };
        assert_eq!(consumer.wire.call(2, &sync).error_code, 0);
        consumer
    }

    fn leave(mut self, group: &str) {
        let member =
            leave_group_request::MemberIdentity { member_id: self.member.clone(), ..Default::default() };
        let leave =
            LeaveGroupRequest { group_id: group.to_owned(), members: vec![member], ..Default::default() };
        assert_eq!(self.wire.call(4, &leave).error_code, 0);
    }
}

#[test]
fn a_group_in_use_is_shown_with_its_members_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = prepared(&dir);
    let reset = ["group", "reset", "g", "--topic", "orders", "--to-offset", "4", "--execute"];
    server.output(&reset);
    let consumer = Consumer::join(&server, "g");

    let group = &json_of(&server, &["group", "describe", "g"])[0];
    assert_eq!(
        (&group["type"], &group["state"], &group["assignor"], &group["coordinator"], &group["epoch"]),
        (&json!("classic"), &json!("Stable"), &json!("range"), &json!(1), &Value::Null)
    );
    let member = &group["members"][0];
    assert_eq!(member["member_id"], json!(consumer.member));
    assert_eq!(member["client_id"], "consumer-1");
    assert_eq!(member["host"], "127.0.0.1");
    assert_eq!(member["topics"], json!(["orders"]));
    assert_eq!(member["assignment"], json!({ "orders": [1] }));
    let text = server.output(&["group", "describe"]);
    assert!(text.starts_with("g  (classic, Stable, 1 member, assignor range, coordinator 1)\n"), "{text}");
    assert!(text.contains("orders:1\n"), "{text}");

    let lag = &json_of(&server, &["group", "lag", "g"])[0]["partitions"];
    assert_eq!((&lag[0]["member_id"], &lag[1]["client_id"]), (&Value::Null, &json!("consumer-1")));

    let refused = failure(&server.run(&reset), 1);
    assert!(refused.contains("group 'g' is Stable with 1 member"), "{refused}");
    assert!(refused.contains("stop its consumers first"), "{refused}");
    let refused = failure(&server.run(&["group", "delete", "g"]), 1);
    assert!(refused.contains("group 'g' has members; stop its consumers first"), "{refused}");
    let refused = failure(&server.run(&["group", "delete", "g", "--topic", "orders"]), 1);
    assert!(refused.contains("GROUP_SUBSCRIBED_TO_TOPIC"), "{refused}");
    let saved = server.output(&["group", "reset", "g", "--all-topics", "--to-current", "--export"]);
    assert_eq!(saved, "orders,0,4\norders,1,4\n", "saving disturbs nobody");

    consumer.leave("g");
    server.output(&reset);
    assert_eq!(server.output(&["group", "delete", "g"]), "g: deleted\n");
}
