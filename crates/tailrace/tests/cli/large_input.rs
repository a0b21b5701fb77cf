//! Large input: through the whole program byte for byte, and across a crash of the server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io::Write;
use std::process::Stdio;

use crate::support::{LASTING, Server, command, until};

/// Lines of very different lengths, all distinct.
fn lines(bytes: usize) -> Vec<u8> {
    let mut input = Vec::with_capacity(bytes + 70_000);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut number = 0;
    while input.len() < bytes {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let length = match random % 1000 {
            0 => 60_000,
            1..10 => 5_000,
            10..20 => 0,
            _ => (random >> 32) as usize % 120,
        };
        number += 1;
        write!(input, "{number} ").unwrap();
        input.extend((0..length).map(|at| b' ' + ((random >> (at % 50)) % 95) as u8));
        input.push(b'\n');
    }
    input
}

#[test]
fn a_large_file_comes_back_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let input = lines(40_000_000);
    let path = dir.path().join("input");
    std::fs::write(&path, &input).unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    server.create("t", 1);
    for codec in ["none", "lz4"] {
        let from = server.consume("t", &["--from", "end", "-f", ""]);
        assert!(from.is_empty());
        let start: u64 = server
            .output(&["topic", "describe", "t", "-o", "json"])
            .split("\"latest_offset\": ")
            .nth(1)
            .and_then(|rest| rest.split(',').next()?.trim().parse().ok())
            .unwrap();
        let status = command(&["produce", "t", "-q", "-z", codec, "-b", &server.kafka])
            .stdin(std::fs::File::open(&path).unwrap())
            .stderr(Stdio::inherit())
            .status()
            .unwrap();
        assert!(status.success());
        let output = server.consume("t", &["--from", &start.to_string()]);
        assert!(output == input, "{codec}: {} bytes became {}", input.len(), output.len());
    }
}

#[test]
fn a_crash_of_the_server_loses_and_doubles_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let input = lines(6_000_000);
    let mut server = Server::start_at(&data, LASTING, &[]);
    let address = server.kafka.clone();
    server.create("t", 1);
    let mut producer = command(&["produce", "t", "-q", "--batch-bytes", "8KiB", "-b", &address])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = producer.stdin.take().unwrap();
    let sent = input.clone();
    let writing = std::thread::spawn(move || {
        for piece in sent.chunks(150_000) {
            stdin.write_all(piece).unwrap();
            // So that the crashes happen between the pieces.
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    });
    let log = data.join("t-0/00000000000000000000.log");
    for round in 1..=2 {
        let so_far = round * 1_500_000;
        until("progress", || log.metadata().is_ok_and(|metadata| metadata.len() > so_far));
        server.kill();
        server = Server::start_at(&data, &address, &[]);
    }
    writing.join().unwrap();
    let output = producer.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let kept = server.consume("t", &[]);
    assert!(kept == input, "{} bytes became {}", input.len(), kept.len());
}
