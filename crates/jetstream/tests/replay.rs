//! What nats-server 2.15.2 answered (`tests/recorded`, written by `interop/jetstream/record.py`), beside what
//! the functions of this crate answer to the same requests. Answers are compared as a whole.

mod world;

use serde_json::Value;
use world::World;

/// Replays a file and lists the differences. `known` says which of them are meant, and why.
fn replay(text: &str, known: fn(&Value) -> Option<&'static str>) {
    let mut world = World::default();
    let (mut asked, mut excused, mut differences) = (0, 0, Vec::new());
    for (at, line) in text.lines().enumerate() {
        let line: Value = serde_json::from_str(&expanded(line)).expect("a recorded line");
        let (ours, theirs) = (world.answer(&line), &line["a"]);
        asked += 1;
        if line["reset"] == true || ours == *theirs {
            continue;
        }
        if known(&line).is_some() {
            excused += 1;
            continue;
        }
        let request = serde_json::json!({"s": line["s"], "b": line["b"], "p": line["p"], "h": line["h"]});
        differences.push(format!("line {}: {}\n ours   {ours}\n theirs {theirs}", at + 1, short(&request)));
    }
    let shown = differences.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {asked} differ:\n{shown}", differences.len());
    assert!(asked > 100 && excused * 20 < asked, "{excused} of {asked} are excused");
}

fn short(request: &Value) -> String {
    request.to_string().chars().take(600).collect()
}

/// Frequent pieces are written as `~N~`, N counting the lines of `words.txt`, and runs of a letter as
/// `~x*4096~`.
fn expanded(line: &str) -> String {
    let words = include_str!("recorded/words.txt").lines().enumerate();
    let line = words.fold(line.to_owned(), |line, (at, word)| line.replace(&format!("~{at}~"), word));
    let mut text = String::new();
    let mut rest = line.as_str();
    while let Some(at) = rest.find('~') {
        text.push_str(&rest[..at]);
        let run = &rest[at + 1..];
        let parsed = run.split_once('~').and_then(|(run, after)| {
            let (letter, count) = run.split_once('*')?;
            Some((letter.repeat(count.parse().ok()?), after))
        });
        match parsed.filter(|_| run.as_bytes().get(1) == Some(&b'*')) {
            Some((letters, after)) => {
                text.push_str(&letters);
                rest = after;
            }
            None => {
                text.push('~');
                rest = run;
            }
        }
    }
    text + rest
}

fn nothing_differs(_: &Value) -> Option<&'static str> {
    None
}

fn meant(line: &Value) -> Option<&'static str> {
    let body = line["b"].as_str().unwrap_or_default();
    if body.contains(r#""tags":[]"#) {
        return Some("Go tells an empty list from none, and keeps such a placement");
    }
    if body.contains(r#"["$SYS.ACCOUNT.>"]"#) {
        return Some("the stream has caught what the server said to itself");
    }
    if body == r#"{"deleted_details":true}"# {
        return Some("nats-server lists sequence 0 as deleted in a new stream");
    }
    None
}

#[test]
fn streams_are_created_and_updated_as_in_nats_server() {
    replay(include_str!("recorded/streams.jsonl"), meant);
}

#[test]
fn consumers_are_created_and_updated_as_in_nats_server() {
    replay(include_str!("recorded/consumers.jsonl"), nothing_differs);
}

#[test]
fn other_requests_are_answered_as_in_nats_server() {
    replay(include_str!("recorded/apis.jsonl"), meant);
}

#[test]
fn messages_are_judged_as_in_a_clustered_nats_server() {
    replay(include_str!("recorded/publishes.jsonl"), nothing_differs);
}
