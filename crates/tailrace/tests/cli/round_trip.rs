//! `tailrace produce` and `tailrace consume` against the server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::support;
use crate::support::{Server, command, failure};
use serde_json::{Value, json};

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

fn start() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    (dir, server)
}

#[test]
fn lines_come_back_byte_for_byte_with_every_codec_and_acknowledgement() {
    let (_dir, server) = start();
    let input = b"first\n\n  two \r\n\xff\xfe\0\nlast without end";
    let expected = [&input[..], b"\n"].concat();
    for codec in CODECS {
        for acks in ["0", "1", "all"] {
            let topic = format!("t-{codec}-{acks}");
            server.create(&topic, 1);
            let summary = server.produce(&topic, &["-z", codec, "--acks", acks], input);
            assert!(summary.starts_with("5 records "), "{summary}");
            // Without waiting for durability the records become visible a moment later.
            assert_eq!(server.consume(&topic, &["--follow", "-c", "5"]), expected, "{topic}");
        }
    }
}

#[test]
fn keys_headers_nulls_and_formats() {
    let (_dir, server) = start();
    server.create("t", 1);
    let more = ["-K", r"\t", "-H", "from=test", "-H", "empty=", "--null", "NULL"];
    server.produce("t", &more, b"k1\tv1\nno key\nk2\tNULL\n\tempty key\n");
    let format = r"%t/%p@%o k=%k(%K) v=%v(%V) [%h] 100%%\n";
    assert_eq!(
        server.consume_text("t", &["-f", format, "--null", "-"]),
        "t/0@0 k=k1(2) v=v1(2) [from=test,empty=] 100%\n\
         t/0@1 k=-(-1) v=no key(6) [from=test,empty=] 100%\n\
         t/0@2 k=k2(2) v=-(-1) [from=test,empty=] 100%\n\
         t/0@3 k=(0) v=empty key(9) [from=test,empty=] 100%\n"
    );
    assert_eq!(server.consume_text("t", &["--key-only", "-c", "1"]), "k1\n");
    server.produce("t", &["--key", "fixed"], b"v\n");
    assert_eq!(server.consume_text("t", &["--from", "-1", "-f", "%k=%v;"]), "fixed=v;");
}

#[test]
fn json_has_a_line_per_record_and_marks_what_is_no_text() {
    let (_dir, server) = start();
    server.create("t", 1);
    server.produce("t", &["-K", ":", "-H", "h=\"quoted\""], b"k:v\xc3\xbc\n\x00\x01:\xff\n");
    let text = server.consume_text("t", &["-o", "json"]);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["value"], "vü");
    assert_eq!(lines[0]["headers"], json!([{ "key": "h", "value": "\"quoted\"" }]));
    assert!(lines[0]["timestamp"].as_i64().unwrap() > 1_700_000_000_000);
    assert_eq!(lines[0].get("value_encoding"), None);
    assert_eq!(lines[1]["key"], "\0\u{1}");
    assert_eq!(lines[1]["value"], "/w==");
    assert_eq!(lines[1]["value_encoding"], "base64");
    assert_eq!(lines[1]["offset"], 1);
}

#[test]
fn consuming_begins_at_an_offset_a_time_or_the_end() {
    let (_dir, server) = start();
    server.create("t", 1);
    server.produce("t", &[], b"0\n1\n2\n");
    // So that the following records have a later timestamp.
    std::thread::sleep(std::time::Duration::from_millis(20));
    server.produce("t", &[], b"3\n4\n");
    let stamps = server.consume_text("t", &["-f", r"%T\n"]);
    let later = stamps.lines().nth(3).unwrap();
    let dates = server.consume_text("t", &["-f", r"%D\n"]);
    for (from, expected) in [
        ("beginning", "0\n1\n2\n3\n4\n"),
        ("2", "2\n3\n4\n"),
        ("5", ""),
        ("-2", "3\n4\n"),
        ("-99", "0\n1\n2\n3\n4\n"),
        ("end", ""),
        (&format!("@{later}"), "3\n4\n"),
        (&format!("@{}", dates.lines().nth(3).unwrap()), "3\n4\n"),
        ("@-1h", "0\n1\n2\n3\n4\n"),
        ("@2999-01-01", ""),
    ] {
        assert_eq!(server.consume_text("t", &["--from", from]), expected, "{from}");
    }
    assert_eq!(server.consume_text("t", &["-c", "2"]), "0\n1\n");
    assert_eq!(server.consume_text("t", &["-c", "0"]), "");
    let error = failure(&server.run(&["consume", "t", "--from", "6"]), 1);
    assert!(error.contains("it holds 0 up to, not including, 5"), "{error}");
}

#[test]
fn keys_decide_the_partition_and_order_holds_within_it() {
    let (_dir, server) = start();
    server.create("t", 4);
    let input: String = (0..2000).map(|n| format!("key{}:{n}\n", n % 16)).collect();
    server.produce("t", &["-K", ":", "--batch-bytes", "1000"], input.as_bytes());
    let text = server.consume_text("t", &["-f", r"%p %k %v\n"]);
    assert_eq!(text.lines().count(), 2000);
    let mut seen = std::collections::BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (partition, key, value) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        let value: u32 = value.parse().unwrap();
        if let Some((place, last)) = seen.insert(key.to_owned(), (partition.to_owned(), value)) {
            assert_eq!(place, partition, "{key}");
            assert!(last < value, "{line} after {last}");
        }
    }
    let used: std::collections::BTreeSet<_> = seen.values().map(|(partition, _)| partition.clone()).collect();
    assert!(used.len() > 1);
    let some = server.consume_text("t", &["-p", "0,2", "-f", r"%p %k %v\n"]);
    for partition in 0..4 {
        let start = format!("{partition} ");
        let of = |text: &'_ str| -> Vec<String> {
            text.lines().filter(|line| line.starts_with(&start)).map(str::to_owned).collect()
        };
        let expected = if partition % 2 == 0 { of(&text) } else { Vec::new() };
        assert_eq!(of(&some), expected, "partition {partition}");
    }
}

#[test]
fn whole_files_are_records() {
    let (dir, server) = start();
    server.create("t", 1);
    let content = b"several\nlines\n\0\xff";
    server.produce("t", &["--file"], content);
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    std::fs::write(&a, "A\n").unwrap();
    std::fs::write(&b, "").unwrap();
    server.produce("t", &["--files", a.to_str().unwrap(), b.to_str().unwrap()], b"");
    assert_eq!(server.consume("t", &["-f", "%v"]), [&content[..], b"A\n"].concat());
    assert_eq!(server.consume_text("t", &["-f", "%V "]), "16 2 0 ");
    let error = failure(&server.run(&["produce", "t", "--files", "/no/such/file"]), 1);
    assert!(error.contains("cannot read /no/such/file: no such file"), "{error}");
}

#[test]
fn a_record_that_is_too_large_is_named_and_the_others_are_kept() {
    let (_dir, server) = start();
    server.output(&["topic", "create", "t", "--config", "max.message.bytes=1000"]);
    let input = ["small\n", &"x".repeat(5000), "\nsmall\n"].concat();
    let error = failure(&server.run_with(&["produce", "t"], input.as_bytes()), 1);
    assert!(error.contains("record 2") && error.contains("max.message.bytes"), "{error}");
    assert_eq!(server.consume_text("t", &[]), "small\n");
    // Compressed it fits.
    server.produce("t", &["-z", "zstd"], input.as_bytes());
    assert_eq!(server.consume_text("t", &["--from", "1"]), input);
}

#[test]
fn following_shows_records_as_they_come_and_slow_input_is_sent_at_once() {
    let (_dir, server) = start();
    server.create("t", 1);
    let mut producer = command(&["produce", "t", "-b", &server.kafka]).stdin(Stdio::piped()).spawn().unwrap();
    let mut consumer =
        command(&["consume", "t", "--follow", "-c", "3", "-b", &server.kafka]).spawn().unwrap();
    let mut input = producer.stdin.take().unwrap();
    let mut lines = BufReader::new(consumer.stdout.take().unwrap()).lines();
    for line in ["a", "b", "c"] {
        writeln!(input, "{line}").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), line);
    }
    assert!(lines.next().is_none());
    assert!(consumer.wait().unwrap().success());
    drop(input);
    assert!(producer.wait().unwrap().success());
}

#[test]
fn a_reader_that_leaves_ends_the_consumer_quietly() {
    let (_dir, server) = start();
    server.create("t", 1);
    server.produce("t", &[], "0123456789\n".repeat(200_000).as_bytes());
    let mut child = command(&["consume", "t", "-b", &server.kafka]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "0123456789");
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_summary_as_json() {
    let (_dir, server) = start();
    server.create("t", 1);
    let output = server.run_with(&["produce", "t", "-o", "json"], b"a\nbc\n");
    let summary: Value = serde_json::from_slice(&support::success(output)).unwrap();
    assert_eq!(summary["records"], 2);
    assert_eq!(summary["bytes"], 3);
    assert_eq!(summary["complete"], true);
}
