//! `produce` and `consume` when they do not reach their end: signals, and damaged batches.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io::{BufRead as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Listener, Server, command, failure, until};

fn start() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    (dir, server)
}

fn begin(server: &Server, arguments: &[&str]) -> Listener {
    let arguments = [arguments, &["--bootstrap", &server.kafka]].concat();
    Listener::quiet(command(&arguments).stdin(Stdio::piped()).spawn().unwrap())
}

#[test]
fn produce_sends_what_it_has_read_when_it_is_told_to_stop() {
    let (_dir, server) = start();
    for (topic, term, status) in [("int", false, 130), ("term", true, 143)] {
        server.create(topic, 1);
        let mut producing = begin(&server, &["produce", topic, "--linger-ms", "60000"]);
        let mut input = producing.stdin();
        // The last line has no line end yet, so it is no record. The others would only be sent after a
        // minute.
        input.write_all(b"a\nb\nunfinished").unwrap();
        // The only outside sign that the input was read is that the pipe is empty.
        until("the input is read", || rustix::io::ioctl_fionread(&input).unwrap() == 0);
        if term {
            producing.terminate()
        } else {
            producing.interrupt()
        }
        let (code, output, said) = producing.end();
        drop(input);
        assert_eq!(code, Some(status), "{said}");
        let name = if term { "SIGTERM" } else { "SIGINT" };
        assert!(said.starts_with(&format!("ended by {name}: 2 records acknowledged, 2 B in ")), "{said}");
        assert!(output.is_empty());
        assert_eq!(server.consume_text(topic, &[]), "a\nb\n");
    }
}

#[test]
fn produce_that_waits_for_a_whole_input_sends_nothing_of_it() {
    let (_dir, server) = start();
    server.create("t", 1);
    let mut producing = begin(&server, &["produce", "t", "--file", "-o", "json"]);
    let mut input = producing.stdin();
    input.write_all(b"the beginning").unwrap();
    until("the input is read", || rustix::io::ioctl_fionread(&input).unwrap() == 0);
    producing.interrupt();
    let (code, output, said) = producing.end();
    assert_eq!((code, said.as_str()), (Some(130), ""));
    let summary: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(
        (&summary["complete"], &summary["stopped_by"], &summary["records"]),
        (&json!(false), &json!("SIGINT"), &json!(0)),
        "{summary}"
    );
    assert_eq!(server.consume_text("t", &[]), "");
}

#[test]
fn consume_says_how_far_it_came() {
    let (_dir, server) = start();
    server.create("t", 1);
    server.produce("t", &[], b"a\nb\n");
    for (arguments, status) in
        [(&["consume", "t", "--follow"][..], 0), (&["consume", "t", "--follow", "-c", "9"], 130)]
    {
        let mut consuming = begin(&server, arguments);
        let mut lines = consuming.stdout();
        let mut line = String::new();
        for expected in ["a\n", "b\n"] {
            line.clear();
            lines.read_line(&mut line).unwrap();
            assert_eq!(line, expected);
        }
        consuming.interrupt();
        let (code, _, said) = consuming.end();
        assert_eq!(code, Some(status), "{arguments:?}: {said}");
        assert!(said.starts_with("ended by SIGINT: 2 records written, 4 B in "), "{said}");
        assert!(said.ends_with(" s; next: t-0 at 2\n"), "{said}");
    }
    let mut consuming = begin(&server, &["consume", "t", "--follow", "-c", "9", "-o", "json"]);
    let mut lines = consuming.stdout();
    lines.read_line(&mut String::new()).unwrap();
    lines.read_line(&mut String::new()).unwrap();
    consuming.terminate();
    let (code, _, said) = consuming.end();
    assert_eq!(code, Some(143), "{said}");
    let summary: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&summary["complete"], &summary["stopped_by"], &summary["records"], &summary["next_offsets"]),
        (&json!(false), &json!("SIGTERM"), &json!(2), &json!({ "0": 2 })),
        "{summary}"
    );
}

/// Three batches of three records. A byte of a value in the second one is changed while the server runs.
fn damaged() -> (tempfile::TempDir, Server) {
    let (dir, server) = start();
    server.create("t", 1);
    for batch in [b"a0\na1\na2\n", b"b3\nb4\nb5\n", b"c6\nc7\nc8\n"] {
        server.produce("t", &["--compression", "none"], batch);
    }
    let log = dir.path().join("data/t-0/00000000000000000000.log");
    let bytes = std::fs::read(&log).unwrap();
    // With its length in front, and no header: the two letters alone may be part of a checksum or a time.
    let at = memchr::memmem::find(&bytes, b"\x04b4\0").unwrap() + 1;
    let file = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
    file.write_all_at(b"B", at as u64).unwrap();
    (dir, server)
}

#[test]
fn consume_writes_the_whole_batches_before_a_damaged_one_and_names_it() {
    let (_dir, server) = damaged();
    let output = server.run(&["consume", "t"]);
    let said = failure(&output, 1);
    assert!(said.contains("t-0 is damaged at offset 3: ") && said.contains("checksum"), "{said}");
    assert!(said.contains("--skip-damaged continues after offset 5"), "{said}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a0\na1\na2\n");
}

#[test]
fn consume_goes_on_behind_a_damaged_batch_where_that_is_asked_for() {
    let (_dir, server) = damaged();
    let output = server.run(&["consume", "t", "--skip-damaged"]);
    let said = failure(&output, 1);
    assert!(
        said.contains("t-0 is damaged at offset 3: ") && said.contains("left out: offsets 3 to 5"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a0\na1\na2\nc6\nc7\nc8\n");
}

/// The server finds the damage before any request for it, so it has nothing to send, and no replica to wait
/// for.
#[test]
fn consume_names_what_the_server_knows_to_be_damaged_and_goes_on_behind_it_if_told_to() {
    let (_dir, server) = damaged();
    let scrub = server.output(&["cluster", "scrub", "--http", &server.http, "--rate", "0", "--topic", "t"]);
    assert!(scrub.contains("1 damaged file"), "{scrub}");
    let began = std::time::Instant::now();
    let output = server.run(&["consume", "t"]);
    let said = failure(&output, 1);
    assert!(said.contains("t-0 is damaged at offset 3: ") && said.contains("CORRUPT_MESSAGE"), "{said}");
    assert!(said.contains("--skip-damaged continues after offset 5"), "{said}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a0\na1\na2\n");
    assert!(
        began.elapsed() < std::time::Duration::from_secs(5),
        "it is not tried again: {:?}",
        began.elapsed()
    );

    let output = server.run(&["consume", "t", "--skip-damaged"]);
    let said = failure(&output, 1);
    assert!(said.contains("t-0 is damaged at offset 3: "), "{said}");
    assert!(said.contains("left out: offsets 3 to 5") && said.lines().count() == 1, "{said}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a0\na1\na2\nc6\nc7\nc8\n");

    // From within the damage, and up to its end.
    let output = server.run(&["consume", "t", "--skip-damaged", "--from", "4", "--count", "1"]);
    assert!(failure(&output, 1).contains("left out: offsets 4 to 5"));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "c6\n");
}

/// Records of the input count from 1, whatever the protocol counts from.
#[test]
fn a_record_that_is_refused_is_named_by_its_number_in_the_input() {
    let (_dir, server) = start();
    server.output(&["topic", "create", "c", "--partitions", "1", "--config", "cleanup.policy=compact"]);
    let said = failure(&server.run_with(&["produce", "c", "-K", ":"], b"k:1\nk:2\nno key\nk:4\n"), 1);
    let expected =
        "tailrace: record 3 was not stored in c-0: a compacted topic cannot accept a record without a key (";
    assert!(said.lines().any(|line| line.starts_with(expected)), "{said}");
}
