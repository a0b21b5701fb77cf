//! Systems as people use them: Kafka in every build, secrets from files, and leftovers of a killed run.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Server, command, failure, run, success};

const SHORT: [&str; 9] = ["bench", "run", "--duration", "1s", "--warm-up", "200ms", "--rate", "500", "-o"];

fn started(more: &[&str]) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), more);
    (server, dir)
}

fn measured(more: &[&str]) -> (Value, String) {
    let output = run(&[&SHORT[..], &["json"], more].concat());
    let errors = String::from_utf8(output.stderr).unwrap();
    (serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}")), errors)
}

#[test]
fn kafka_is_measured_by_every_build() {
    let (server, _dir) = started(&[]);
    let (result, errors) =
        measured(&["--system", "tailrace-kafka", "--address", &server.kafka, "--connections", "3"]);
    for count in ["due", "sent", "acknowledged", "received"] {
        assert_eq!(result["counts"][count], 500, "{count} {result}");
    }
    assert_eq!(result["latency"]["receipt"]["count"], 500);
    assert_eq!(result["latency"]["acknowledgement"]["count"], 500);
    assert!(
        errors.contains("creates the topics tailrace-bench.")
            && errors.contains("bench clean tailrace-kafka")
    );
    // The topics that the run created are deleted.
    assert!(!server.output(&["topic", "list"]).contains("tailrace-bench"));
    let arguments = ["--system", "tailrace-kafka", "--address", &server.kafka, "--set", "client.acks=1"];
    let text = failure(&run(&[&SHORT[..], &["text"], &arguments[..]].concat()), 1);
    assert!(
        text.contains("client.acks is a setting of librdkafka: expected --system kafka-librdkafka"),
        "{text}"
    );
}

/// Lists leftovers on the server. Removes them only if `--yes` is among `more`.
fn left(server: &Server, more: &[&str]) -> Vec<Value> {
    let clean = ["bench", "clean", "tailrace-kafka", "--address", &server.kafka, "-o", "json"];
    serde_json::from_slice(&success(run(&[&clean, more].concat()))).unwrap()
}

#[test]
fn what_a_killed_run_leaves_is_listed_and_removed() {
    let (server, _dir) = started(&[]);
    server.create("tailrace-bench.mine", 1);
    assert_eq!(left(&server, &[]), [] as [Value; 0]);
    let arguments =
        ["bench", "run", "--system", "tailrace-kafka", "--address", &server.kafka, "--connections", "2"];
    let mut child =
        command(&[&arguments[..], &["--duration", "60s"]].concat()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    // The run announces its topics before it creates them.
    let deadline = Instant::now() + Duration::from_secs(30);
    while left(&server, &[]).len() < 2 {
        assert!(Instant::now() < deadline, "{said}");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let found = left(&server, &[]);
    let names: Vec<&str> = found.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| said.contains(name)), "{names:?} {said}");
    assert!(found.iter().all(|one| one["kind"] == "topic" && one["removed"] == false), "{found:?}");
    // There is no terminal to ask, so nothing is removed.
    let text = ["bench", "clean", "tailrace-kafka", "--address", &server.kafka];
    let output = run(&text);
    assert!(String::from_utf8_lossy(&output.stderr).contains("2 left as they are; --yes removes them"));
    assert_eq!(String::from_utf8_lossy(&success(output)).lines().count(), 2);
    let removed = left(&server, &["--yes"]);
    assert!(removed.len() == 2 && removed.iter().all(|one| one["removed"] == true), "{removed:?}");
    assert_eq!(left(&server, &[]), [] as [Value; 0]);
    // A topic with a similar name belongs to someone else.
    assert!(server.output(&["topic", "list"]).contains("tailrace-bench.mine"));
}

#[test]
fn what_cannot_be_cleaned_is_said() {
    for (arguments, status, words) in [
        (&["noop"][..], 1, "runs leave nothing on the system noop"),
        (&["pigeon"], 2, "'pigeon'"),
        (&["kafka", "--address", "127.0.0.1:1"], 1, "cannot connect to 127.0.0.1:1"),
        (&["kafka", "--set", "colour=red"], 1, "'colour' is not a setting of the system kafka"),
        (
            &["rabbitmq", "--address", "127.0.0.1:1", "--set", "management=127.0.0.1:1"],
            1,
            "rabbitmq_management",
        ),
    ] {
        let text = failure(&run(&[&["bench", "clean"], arguments].concat()), status);
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn secrets_come_from_files_and_stay_out_of_results() {
    let (server, dir) =
        started(&["--set", "tailrace.nats.user=alice", "--set", "tailrace.nats.password=hush-1"]);
    let file = dir.path().join("password");
    std::fs::write(&file, "hush-1\n").unwrap();
    let (file, out) = (format!("password-file={}", file.display()), dir.path().join("out"));
    let target = ["--system", "tailrace-nats", "--address", &server.nats, "--set", "user=alice"];
    let (result, errors) =
        measured(&[&target[..], &["--set", &file, "--out", out.to_str().unwrap()]].concat());
    assert_eq!(result["counts"]["received"], 500, "{result}");
    assert_eq!(result["settings"]["user"], "alice");
    let written = std::fs::read_to_string(out.join("result.json")).unwrap();
    for text in [&result.to_string(), &written, &errors] {
        assert!(!text.contains("hush"), "{text}");
    }
    let refused = |more: &[&str]| failure(&run(&[&SHORT[..], &["text"], &target[..], more].concat()), 1);
    let text = refused(&["--set", "password=hush-2"]);
    assert!(text.contains("Authorization Violation") && !text.contains("hush"), "{text}");
    let text = refused(&["--set", "password-file=/nowhere"]);
    assert!(text.contains("password-file: cannot read /nowhere: no such file"), "{text}");
    let text = refused(&[]);
    assert!(text.contains("user and password go together"), "{text}");
}
