//! Conversations over the Kafka protocol, as text. The golden answers were recorded from Kafka and are never
//! edited to suit tailrace.
//!
//! A script is a text file in `tests/kafka/conversations`. By default each script gets a tailrace server.
//! Environment variables select a running broker instead:
//! * `TAILRACE_TEST_KAFKA=HOST:PORT` plays the scripts against that broker, which must be empty. This checks
//!   the scripts themselves.
//! * `TAILRACE_TEST_KAFKA_RECORD=1` in addition writes the received answers into the scripts.
//!
//! ```text
//! # a comment
//! > produce v9 t-0 "a" "b"      connection A sends this; the answer follows, without 0, false and empty
//! B> fetch v12 t-0@0            another connection does the same
//! B>> join v9 group=g           sends, and does not wait
//! B<                            the answer to that
//! > wait ms=1100                for things that only time brings about
//!   | responses: ...            ours, after Kafka's, where they differ on purpose: our whole answer
//! ```
//!
//! Values that differ from run to run are named in the order in which they first appear: `id1` is a topic id,
//! `m1` a member id, `p1` a producer id.

#![allow(unreachable_pub, reason = "a module of a test binary")]

mod ask;
mod player;
mod show;
mod words;

use std::collections::BTreeSet;
use std::env;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::common::TestServer;
use player::Player;

macro_rules! conversations {
    ($($name:ident)*) => {
        const CONVERSATIONS: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                converse(stringify!($name));
            }
        )*
    };
}

conversations! {
    produce fetch offsets topics configs producers transactions classic_group committed_offsets consumer_group share_group share_beginning
}

#[test]
fn every_script_is_played() {
    let files = std::fs::read_dir(folder()).expect("the folder exists");
    let names = files.map(|file| {
        let path = file.expect("a readable entry").path();
        path.file_stem().expect("a file name").to_string_lossy().into_owned()
    });
    assert_eq!(names.collect::<BTreeSet<_>>(), CONVERSATIONS.iter().map(|&name| name.to_owned()).collect());
}

/// By then Kafka's brokers know what its controller has answered, and markers have arrived.
const SETTLES_WITHIN: Duration = Duration::from_millis(200);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kafka/conversations")
}

fn converse(name: &str) {
    let path = folder().join(name).with_extension("txt");
    let script = std::fs::read_to_string(&path).expect("the script can be read");
    if let Ok(address) = env::var("TAILRACE_TEST_KAFKA") {
        let address = address.to_socket_addrs().expect("HOST:PORT").next().expect("an address");
        let heard = play(address, &script, SETTLES_WITHIN);
        if env::var_os("TAILRACE_TEST_KAFKA_RECORD").is_some() {
            return std::fs::write(&path, heard).expect("the script can be written");
        }
        return compare(name, &script, &heard);
    }
    let runtime = Runtime::new().expect("a runtime");
    let server = runtime.block_on(TestServer::start());
    let heard = play(server.kafka(), &script, Duration::ZERO);
    compare(name, &with_ours(&script), &without_ours(&heard));
    runtime.block_on(async move { drop(server) });
}

fn compare(name: &str, expected: &str, heard: &str) {
    assert!(expected == heard, "{name} differs:\n{heard}");
}

/// Plays the script against the broker at `address` and returns it with the answers received. Lines marked as
/// ours stay in place.
fn play(address: SocketAddr, script: &str, settles_within: Duration) -> String {
    let mut player = Player::new(address, settles_within);
    let mut heard = String::new();
    for line in script.lines() {
        if line.starts_with(OURS) {
            heard.push_str(line);
            heard.push('\n');
        }
        if line.starts_with("  ") {
            continue;
        }
        heard.push_str(line);
        heard.push('\n');
        println!("{line}");
        for answer in player.say(line) {
            println!("  {answer}");
            heard.push_str("  ");
            heard.push_str(&answer);
            heard.push('\n');
        }
    }
    heard
}

const OURS: &str = "  | ";

fn without_ours(script: &str) -> String {
    script.lines().filter(|line| !line.starts_with(OURS)).map(|line| format!("{line}\n")).collect()
}

/// Replaces the recorded answer with our lines, where an answer has any.
fn with_ours(script: &str) -> String {
    let (mut lines, mut answer): (Vec<String>, usize) = (Vec::new(), 0);
    let mut is_ours = false;
    for line in script.lines() {
        if !line.starts_with("  ") {
            lines.push(line.to_owned());
            (answer, is_ours) = (lines.len(), false);
        } else if let Some(ours) = line.strip_prefix(OURS) {
            if !is_ours {
                lines.truncate(answer);
                is_ours = true;
            }
            lines.push(format!("  {ours}"));
        } else if !is_ours {
            lines.push(line.to_owned());
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}
