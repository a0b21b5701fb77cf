//! How systems refuse, and how that is reported: one line with the reason, before the run.
//!
//! The texts are those of the named systems. `interop/bench-systems.sh` tries the same with the systems
//! themselves.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use tailrace_bench::clock::MonotonicClock;
use tailrace_bench::systems::{self, Settings, Target};

use crate::peers::script::{Script, Turn};

fn target(system: &str, address: String, payload_bytes: usize) -> Target {
    let settings = [("user", "alice"), ("password", "guess")];
    let known = matches!(system, "mqtt" | "stomp" | "rabbitmq");
    let settings = settings.into_iter().filter(|_| known);
    Target {
        system: system.to_owned(),
        address: Some(address),
        connections: 1,
        payload_bytes,
        run: 7,
        settings: Settings::new(settings.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()),
    }
}

fn set_up_fails(target: &Target) -> String {
    let mut opened = systems::open(target).unwrap();
    let error = systems::set_up(&mut opened.requesters, target, &MonotonicClock::default()).unwrap_err();
    error.to_string()
}

fn hear(bytes: &[u8]) -> Turn {
    Turn::Hear(bytes.to_vec())
}

fn say(bytes: &[u8]) -> Turn {
    Turn::Say(bytes.to_vec())
}

/// The adapter's error after a conversation, without the address.
fn says(system: &str, turns: Vec<Turn>) -> String {
    let script = Script::start(turns);
    let address = script.address.clone();
    let error = set_up_fails(&target(system, address.clone(), 100));
    script.finish();
    error.replace(&address, "ADDRESS")
}

const MQTT_CONNECT: &[u8] = b"\x10\x1F\0\x04MQTT\x04\xC2\0\0\0\x05b7-0s\0\x05alice\0\x05guess";

#[test]
fn mqtt_brokers_refuse_connections_by_number() {
    for (code, expected) in [
        (4, "ADDRESS refuses the connection: wrong user or password"),
        (5, "ADDRESS refuses the connection: not authorised"),
        (3, "ADDRESS refuses the connection: server unavailable"),
        (200, "ADDRESS refuses the connection: code 200"),
    ] {
        let turns = vec![Turn::Accept, hear(MQTT_CONNECT), say(&[0x20, 2, 0, code])];
        assert_eq!(says("mqtt", turns), expected);
    }
}

#[test]
fn mqtt_brokers_refuse_subscriptions_by_number() {
    let subscribe = b"\x82\x17\0\x01\0\x12tailrace-bench/7/0\x01";
    let turns = vec![
        Turn::Accept,
        hear(MQTT_CONNECT),
        say(b"\x20\x02\0\0"),
        hear(subscribe),
        say(b"\x90\x03\0\x01\x80"),
    ];
    assert_eq!(says("mqtt", turns), "ADDRESS refuses the subscription to tailrace-bench/7/0");
}

/// The texts of ActiveMQ and RabbitMQ.
#[test]
fn stomp_brokers_say_why_in_a_header() {
    let connect = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:alice\npasscode:guess\n\n\0";
    for (frame, expected) in [
        (
            &b"ERROR\ncontent-type:text/plain\nmessage:User name [alice] or password is invalid.\n\njava.lang.SecurityException: ...\0"[..],
            "ADDRESS says User name [alice] or password is invalid.",
        ),
        (
            b"ERROR\nmessage:Bad CONNECT\ncontent-type:text/plain\nversion:1.0,1.1,1.2\ncontent-length:27\n\nAccess refused for user 'x\n\0",
            "ADDRESS says Bad CONNECT",
        ),
        (
            b"ERROR\nmessage:bob may not read\\c queue\\c//a\\\\b\\nnor\\x write\\\n\n\0",
            "ADDRESS says bob may not read: queue://a\\b nor\\x write\\",
        ),
        (b"ERROR\n\nno more room\nat all\0", "ADDRESS says no more room"),
        (b"RECEIPT\nreceipt-id:1\n\n\0", "ADDRESS sent an unexpected answer: expected CONNECTED, found RECEIPT\\nreceipt-id:1\\n\\n\\0"),
    ] {
        let turns = vec![Turn::Accept, hear(connect), say(frame)];
        assert_eq!(says("stomp", turns), expected);
    }
}

/// The broker closes the connection without an error, unless the client announces that it understands one.
#[test]
fn rabbitmq_is_asked_to_say_that_the_password_is_wrong() {
    let start = b"\x01\0\0\0\0\0\x1C\0\x0A\0\x0A\0\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\x05en_US\xCE";
    let capabilities = b"\0\0\0\x31\x0Ccapabilities\x46\0\0\0\x1F\x1Cauthentication_failure_closet\x01";
    let mut start_ok = b"\x01\0\0\0\0\0\0\0\x0A\0\x0B".to_vec();
    start_ok.extend_from_slice(capabilities);
    start_ok.extend_from_slice(b"\x05PLAIN\0\0\0\x0C\0alice\0guess\x05en_US\xCE");
    let length = (start_ok.len() - 8) as u8;
    start_ok[6] = length;
    let close = b"\x01\0\0\0\0\0\x1D\0\x0A\0\x32\x01\x93\x12ACCESS_REFUSED - x\0\0\0\0\xCE";
    let turns = vec![Turn::Accept, hear(b"AMQP\0\0\x09\x01"), say(start), hear(&start_ok), say(close)];
    assert_eq!(says("rabbitmq", turns), "ADDRESS says ACCESS_REFUSED - x");
}

/// The server requires TLS, or does not support it, before anything else is exchanged.
#[test]
fn tls_that_only_one_end_wants() {
    let info = b"INFO {\"server_id\":\"N\",\"tls_required\":true}\r\n";
    let expected = "ADDRESS demands TLS: expected --set tls-ca=FILE, or tls=unchecked";
    assert_eq!(says("nats", vec![Turn::Accept, say(info)]), expected);
    let unchecked = [("tls".to_owned(), "unchecked".to_owned())];
    let hello = "  V2IDENTIFY\n\0\0\0\x48{\"feature_negotiation\":true,\"tls_v1\":true,\"user_agent\":\"tailrace bench\"}";
    let features = b"\0\0\0\x18\0\0\0\0{\"max_rdy_count\":10}";
    for (system, heard, said) in
        [("postgres", &b"\0\0\0\x08\x04\xD2\x16\x2F"[..], &b"N"[..]), ("nsq", hello.as_bytes(), features)]
    {
        let script = Script::start(vec![Turn::Accept, hear(heard), say(said)]);
        let mut target = target(system, script.address.clone(), 100);
        target.settings = Settings::new(unchecked.clone().into());
        assert_eq!(set_up_fails(&target), format!("{} does not speak TLS", script.address));
        script.finish();
    }
}

/// Behaves like nats-server when a message is too large: sends the reason, and closes while the message is
/// still being sent.
fn complain(mut stream: TcpStream) {
    stream.write_all(b"INFO {\"max_payload\":1048576}\r\n").unwrap();
    let mut heard = Vec::new();
    let mut byte = [0];
    while !heard.ends_with(b"PUB ") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        heard.push(byte[0]);
        if heard.ends_with(b"PING\r\n") {
            stream.write_all(b"PONG\r\n").unwrap();
        }
    }
    // Some of the message is read; unread data in the socket turns the close into a reset.
    stream.read_exact(&mut [0; 1000]).unwrap();
    stream.write_all(b"-ERR 'Maximum Payload Violation'\r\n").unwrap();
}

/// Sending fails before the reason is read.
#[test]
fn a_complaint_is_heard_although_the_connection_broke() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // They end with the client's connections, or with the process.
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || complain(stream.unwrap()));
        }
    });
    let error = set_up_fails(&target("nats", address.clone(), 32 << 20));
    assert_eq!(error, format!("{address} says 'Maximum Payload Violation'"));
}
