//! NSQ byte by byte: what nsqd may send, and what the client must answer.

use tailrace_bench::systems::{self, Deed, LeftOver, Target};

use crate::peers::free_address;
use crate::peers::nsqd::Nsqd;
use crate::peers::script::{Script, Turn, hear};
use crate::promises::{comes_back, shows_a_stall, survives_resets};
use crate::target::{set_up_fails, settings, target};

/// This nsqd is simulated, and stricter than the real one.
#[test]
fn nsq_simulated() {
    let nsqd = Nsqd::start();
    comes_back("nsq", Some(nsqd.address.clone()), 500);
    let seen = nsqd.seen();
    // Two seconds' worth without the warm-up, and a probe for each connection and size.
    assert!(seen.finished >= 500 + 500 + 30, "{seen:?}");
    assert!(seen.heartbeats > 20 && seen.heartbeats_answered > 20, "{seen:?}");
    shows_a_stall("nsq", nsqd.address.clone());
    survives_resets(target("nsq", None), nsqd.address.clone(), 500, true);
}

fn nsq_frame(kind: u8, body: &str) -> Turn {
    let mut frame = vec![0, 0, 0, 4 + body.len() as u8, 0, 0, 0, kind];
    frame.extend_from_slice(body.as_bytes());
    Turn::Say(frame)
}

const NSQ_HELLO: &str =
    "  V2IDENTIFY\n\0\0\0\x3A{\"feature_negotiation\":true,\"user_agent\":\"tailrace bench\"}";

#[test]
fn conversations_with_nsq_that_fail() {
    let target = Target { run: 7, connections: 1, payload_bytes: 100, ..target("nsq", None) };
    let features = || nsq_frame(0, r#"{"max_rdy_count":2500,"version":"1.3.0"}"#);
    let subscribe = || hear("SUB tailrace-bench.7.0#ephemeral tailrace-bench#ephemeral\n");
    for (turns, expected) in [
        (vec![nsq_frame(1, "E_INVALID cannot")], "says E_INVALID cannot"),
        (vec![nsq_frame(0, r#"{"auth_required":true}"#)], "wants AUTH: expected --set secret="),
        (vec![nsq_frame(0, "OK")], "sent an unexpected answer: expected what nsqd can do, in JSON, found OK"),
        (
            vec![
                nsq_frame(0, "_heartbeat_"),
                hear("NOP\n"),
                features(),
                subscribe(),
                nsq_frame(1, "E_BAD_TOPIC no"),
            ],
            "says E_BAD_TOPIC no",
        ),
        (vec![features(), subscribe(), nsq_frame(0, "CLOSE_WAIT")], "expected OK, found CLOSE_WAIT"),
        (
            vec![
                features(),
                subscribe(),
                nsq_frame(0, "OK"),
                hear("RDY 2500\n"),
                Turn::Accept,
                hear(NSQ_HELLO),
                features(),
                hear("PUB tailrace-bench.7.0#ephemeral\n\0\0\0\x64"),
                nsq_frame(1, "E_PUB_FAILED disk full"),
            ],
            "the system refused a message before the run: E_PUB_FAILED disk full",
        ),
    ] {
        let hello = [Turn::Accept, hear(NSQ_HELLO)];
        let script = Script::start(hello.into_iter().chain(turns).collect());
        let error = set_up_fails(&Target { address: Some(script.address.clone()), ..target.clone() });
        assert!(error.contains(expected), "{error}");
        script.finish();
    }
    let mut secret = target.clone();
    secret.settings = settings(&[("secret", "s3cret")]);
    let asked = || {
        let wants = nsq_frame(0, r#"{"max_rdy_count":2500,"auth_required":true}"#);
        vec![Turn::Accept, hear(NSQ_HELLO), wants, hear("AUTH\n\0\0\0\x06s3cret")]
    };
    let allowed = nsq_frame(0, r#"{"identity":"alice"}"#);
    for (turns, expected) in [
        (vec![nsq_frame(1, "E_AUTH_FAILED no")], "says E_AUTH_FAILED no"),
        (vec![allowed, subscribe(), nsq_frame(1, "E_UNAUTHORIZED no")], "says E_UNAUTHORIZED no"),
    ] {
        let script = Script::start(asked().into_iter().chain(turns).collect());
        let error = set_up_fails(&Target { address: Some(script.address.clone()), ..secret.clone() });
        assert!(error.ends_with(expected), "{error}");
        script.finish();
    }
    let mut unbuffered = target;
    unbuffered.settings = settings(&[("output_buffer_timeout", "-1")]);
    let hello = "  V2IDENTIFY\n\0\0\0\x6D{\"feature_negotiation\":true,\"output_buffer_size\":-1,\
        \"output_buffer_timeout\":-1,\"user_agent\":\"tailrace bench\"}";
    let script = Script::start(vec![Turn::Accept, hear(hello), nsq_frame(1, "E_BAD_BODY")]);
    unbuffered.address = Some(script.address.clone());
    let error = set_up_fails(&unbuffered);
    assert!(error.ends_with("says E_BAD_BODY"), "{error}");
    script.finish();
    unbuffered.settings = settings(&[("output_buffer_timeout", "soon")]);
    let error = systems::open(&unbuffered).err().unwrap().to_string();
    assert!(error.starts_with("output_buffer_timeout=soon is unknown"), "{error}");
}

/// nsqd keeps an ephemeral topic if it reads published messages after it has noticed that the subscriber is
/// gone.
#[test]
fn topics_that_a_killed_run_left_are_found_over_http() {
    let ask = |verb: &str, path: &str, host: &str| {
        Turn::Hear(format!("{verb} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n").into())
    };
    let say = |text: &str| Turn::Say(text.as_bytes().to_vec());
    let names =
        ["tailrace-bench.7.0#ephemeral", "tailrace-bench.mine#ephemeral", "tailrace-bench.7.1#ephemeral"];
    let topics = names.map(|name| format!(r#"{{"topic_name":"{name}"}}"#)).join(",");
    let address = free_address();
    let stats = || {
        // A response longer than nsqd's buffer has no length; it ends with the connection.
        let answer = format!("HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n{{\"topics\":[{topics}]}}");
        let path = "/stats?format=json&include_clients=false&include_mem=false";
        [Turn::Accept, ask("GET", path, &address), say(&answer), Turn::HangUp]
    };
    let delete = |connection: u32, answer: &str| {
        let path = format!("/topic/delete?topic=tailrace-bench.7.{connection}%23ephemeral");
        [Turn::Accept, ask("POST", &path, &address), say(answer)]
    };
    let turns =
        stats().into_iter().chain(stats()).chain(delete(0, "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"));
    // The topic was deleted meanwhile.
    let gone = "HTTP/1.0 404 Not Found\r\nContent-Length: 29\r\n\r\n{\"message\":\"TOPIC_NOT_FOUND\"}";
    let script = Script::start_at(&address, turns.chain(delete(1, gone)).collect());
    let mut target = target("nsq", Some("127.0.0.1:1".to_owned()));
    target.settings = settings(&[("http", &address)]);
    let ours = [0, 1].map(|connection| LeftOver {
        kind: "topic",
        name: format!("tailrace-bench.7.{connection}#ephemeral"),
    });
    assert_eq!(systems::left_over(&target, Deed::List, &[]).unwrap(), ours);
    assert_eq!(systems::left_over(&target, Deed::Remove, &ours).unwrap(), ours);
    script.finish();
    // Nothing listens there any more.
    let error = systems::left_over(&target, Deed::List, &[]).unwrap_err().to_string();
    assert!(error.contains("expected --set http=HOST:PORT"), "{error}");
}
