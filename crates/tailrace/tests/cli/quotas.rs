//! `tailrace quota`, against a server that has no quotas yet.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use crate::support::{Server, failure, run};

#[test]
fn quotas_are_set_listed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    for filter in [&[][..], &["--user", "alice"], &["--default-user", "--client-id", "app"], &["--ip", "::1"]]
    {
        let list = [&["quota", "list"][..], filter].concat();
        assert_eq!(server.output(&list), "ENTITY  QUOTA  VALUE\n");
        assert_eq!(server.output(&[&list[..], &["-o", "json"]].concat()), "[]\n");
    }
    let set = ["quota", "set", "--user", "alice", "--client-id", "app", "--producer-bytes", "10MB/s"];
    server.output(&set);
    let list = server.output(&["quota", "list", "--user", "alice"]);
    assert!(list.contains("producer_byte_rate") && list.contains("client-id 'app'"), "{list}");
    server.output(&["quota", "remove", "--user", "alice", "--client-id", "app", "--limit", "producer-bytes"]);
    assert_eq!(server.output(&["quota", "list"]), "ENTITY  QUOTA  VALUE\n");
    let remove = ["quota", "remove", "--default-client-id", "--limit", "producer-bytes"];
    assert_eq!(
        failure(&server.run(&remove), 1),
        "tailrace: the default client-id: there is no quota; `tailrace quota list` shows all quotas\n"
    );
    assert_eq!(server.output(&[&remove[..], &["--if-exists"]].concat()), "");
}

#[test]
fn quotas_that_make_no_sense_are_wrong_usage() {
    for (more, expected) in [
        (&["set", "--producer-bytes", "1MB"][..], "--user"),
        (&["set", "--user", "a"], "--producer-bytes"),
        (&["set", "--user", "a", "--producer-bytes", "fast"], "'fast' is no rate of bytes"),
        (&["set", "--user", "a", "--producer-bytes", "-5"], "'-5'"),
        (&["set", "--user", "a", "--connections", "5"], "only addresses have connection_creation_rate"),
        (&["set", "--ip", "::1", "--producer-bytes", "5"], "an address has no producer_byte_rate"),
        (
            &["set", "--user", "a", "--mutations", "5", "-l", "mutations=6"],
            "controller_mutation_rate is given twice",
        ),
        (&["set", "--user", "a", "--ip", "::1", "--connections", "5"], "cannot be used with"),
        (&["remove"], "--user"),
    ] {
        let words = [&["quota"][..], more, &["-b", "127.0.0.1:1"]].concat();
        let error = failure(&run(&words), 2);
        assert!(error.contains(expected), "{words:?}: {error}");
    }
}
