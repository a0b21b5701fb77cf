//! Kafka's own classes read what this crate writes, at every version, and write the same bytes.

use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

use super::{any, vectors};

#[test]
#[ignore = "needs a JDK, and KAFKA_CLIENTS_JAR with the path of kafka-clients 4.3.1"]
fn kafka_itself_agrees_about_every_message() {
    let jar = env::var_os("KAFKA_CLIENTS_JAR").expect("KAFKA_CLIENTS_JAR is set");
    let mut lines = String::new();
    let mut count = 0;
    for vector in vectors::all(20, 5) {
        let (message, version) = (vector.message, vector.version);
        let encoded = any::decode_and_encode(message, version, vector.bytes).expect("legal");
        let direction = if message.request { "request" } else { "response" };
        write!(lines, "{} {direction} {version} ", message.key).expect("a string");
        encoded.iter().for_each(|byte| write!(lines, "{byte:02x}").expect("a string"));
        lines.push('\n');
        count += 1;
    }
    let mut java = Command::new("java")
        .arg("-cp")
        .arg(jar)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/java/ReadVectors.java"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("java runs");
    let mut input = java.stdin.take().expect("piped");
    // Java prints while it reads, so the test serves both pipes at the same time.
    let writing = thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = java.wait_with_output().expect("java ends");
    writing.join().expect("no panic").expect("java reads");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), count.to_string());
}
