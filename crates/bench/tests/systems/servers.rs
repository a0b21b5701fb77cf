//! Servers of other vendors, and tailrace: if the environment names one, or one is installed.

use tailrace_bench::systems::Target;

use crate::peers;
use crate::peers::postgres::{self, Postgres};
use crate::peers::redis::Redis;
use crate::peers::tls_front::TlsFront;
use crate::promises::{
    comes_back, comes_back_with, leaves_nothing, shows_a_stall, shows_a_stall_with, survives_resets,
};
use crate::target::{server, set_up_fails, settings, target};

#[test]
fn redis_survives_resets() {
    let Some(server) = Redis::start() else {
        eprintln!("not tried: no Redis is installed");
        return;
    };
    let address = &server.address;
    std::thread::scope(|scope| {
        for (system, keeps) in [("redis", false), ("redis-streams", true)] {
            scope.spawn(move || {
                comes_back(system, Some(address.clone()), 500);
                survives_resets(target(system, None), address.clone(), 500, keeps);
            });
        }
    });
    // Its keys are named like those of streams. One message per round trip, which the proxy makes 20 ms.
    comes_back("redis-lists", Some(address.clone()), 500);
    survives_resets(target("redis-lists", None), address.clone(), 40, true);
    leaves_nothing("redis-streams", address, 9);
    let front = TlsFront::start(address.clone());
    let ca = front.authority();
    for system in ["redis", "redis-streams"] {
        let mut target = target(system, Some(front.address.clone()));
        target.settings = settings(&[("tls-ca", &ca)]);
        comes_back_with(&target, &[128, 300_000], 500);
    }
}

#[test]
fn nats_and_jetstream() {
    let Some(address) = server("nats") else { return };
    comes_back("nats", Some(address.clone()), 2000);
    comes_back("jetstream", Some(address.clone()), 500);
    shows_a_stall("nats", address.clone());
    shows_a_stall("jetstream", address.clone());
    survives_resets(target("nats", None), address.clone(), 500, false);
    survives_resets(target("jetstream", None), address.clone(), 500, true);
    leaves_nothing("jetstream", &address, 8);
}

#[test]
fn tailrace_nats() {
    let Some(address) = server("tailrace-nats") else { return };
    comes_back("tailrace-nats", Some(address.clone()), 2000);
    shows_a_stall("tailrace-nats", address.clone());
    survives_resets(target("tailrace-nats", None), address, 500, false);
}

#[test]
fn redis_and_streams() {
    let Some(address) = server("redis") else { return };
    comes_back("redis", Some(address.clone()), 2000);
    comes_back("redis-streams", Some(address.clone()), 500);
    comes_back("redis-lists", Some(address.clone()), 500);
    shows_a_stall("redis", address.clone());
    shows_a_stall("redis-streams", address.clone());
    shows_a_stall("redis-lists", address);
}

#[test]
fn rabbitmq() {
    let Some(address) = server("rabbitmq") else { return };
    comes_back("rabbitmq", Some(address.clone()), 500);
    shows_a_stall("rabbitmq", address.clone());
    survives_resets(target("rabbitmq", None), address.clone(), 500, false);
    for (queue, keeps) in [("quorum", false), ("stream", true)] {
        let of_kind = |address: Option<&String>| {
            let mut target = target("rabbitmq", address.cloned());
            target.settings = settings(&[("queue", queue)]);
            target
        };
        comes_back_with(&of_kind(Some(&address)), &[24, 128, 300_000], 300);
        shows_a_stall_with(of_kind(None), address.clone());
        survives_resets(of_kind(None), address.clone(), 300, keeps);
    }
}

#[test]
fn mqtt() {
    let Some(address) = server("mqtt") else { return };
    comes_back("mqtt", Some(address.clone()), 500);
    shows_a_stall("mqtt", address.clone());
    survives_resets(target("mqtt", None), address, 500, false);
}

#[test]
fn stomp() {
    let Some(address) = server("stomp") else { return };
    comes_back("stomp", Some(address.clone()), 500);
    shows_a_stall("stomp", address.clone());
    survives_resets(target("stomp", None), address, 500, true);
}

#[test]
fn postgres() {
    let Some(server) = Postgres::start() else {
        peers::not_tried("postgres", "it is not installed");
        return;
    };
    let logged_in = |database: &str, password: &str| {
        let mut target = target("postgres", Some(server.address.clone()));
        target.settings = settings(&[("database", database), ("password", password)]);
        target
    };
    let scram = logged_in("postgres", postgres::PASSWORD);
    comes_back_with(&scram, &[24, 128, 5_998, 5_999], 300);
    comes_back_with(&logged_in("template1", postgres::PASSWORD), &[128], 100);
    shows_a_stall_with(scram.clone(), server.address.clone());
    survives_resets(scram.clone(), server.address.clone(), 500, false);
    let mut asynchronous = scram;
    asynchronous.settings = settings(&[("password", postgres::PASSWORD), ("synchronous_commit", "off")]);
    comes_back_with(&asynchronous, &[128], 300);
    asynchronous.settings = settings(&[("password", postgres::PASSWORD), ("synchronous_commit", "maybe")]);
    for (wrong, expected) in [
        (logged_in("postgres", "guess"), "says FATAL 28P01: password authentication failed"),
        (logged_in("template1", "guess"), "says FATAL 28P01: password authentication failed"),
        // The login succeeds, and the server refuses only after it.
        (logged_in("template0", ""), "says FATAL 55000: database \"template0\" is not currently accepting"),
        (asynchronous, "says FATAL 22023: invalid value for parameter \"synchronous_commit\": \"maybe\""),
    ] {
        let error = set_up_fails(&wrong);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn nsq() {
    let Some(address) = server("nsq") else { return };
    comes_back("nsq", Some(address.clone()), 500);
    // Otherwise nsqd buffers a subscriber's messages for up to 250 ms.
    let unbuffered = || {
        let mut target = target("nsq", None);
        target.settings = settings(&[("output_buffer_timeout", "-1")]);
        target
    };
    shows_a_stall_with(unbuffered(), address.clone());
    survives_resets(unbuffered(), address, 500, true);
}

/// A server advertises its own address; its clients go through a proxy only if they ignore that.
fn kafka_at(system: &str, address: &str) {
    comes_back(system, Some(address.to_owned()), 500);
    for acks in ["1", "0"] {
        let mut target = target(system, Some(address.to_owned()));
        target.settings = settings(&[("acks", acks)]);
        comes_back_with(&target, &[128], 500);
    }
    let here = || {
        let mut target = target(system, None);
        target.settings = settings(&[("advertised", "false"), ("topic.retention.ms", "3600000")]);
        target
    };
    shows_a_stall_with(here(), address.to_owned());
    survives_resets(here(), address.to_owned(), 500, true);
    let gone = ("topic.colour", "red", "INVALID_CONFIG");
    for (key, value, expected) in [gone, ("replication", "7", "INVALID_REPLICATION_FACTOR")] {
        let mut target = target(system, Some(address.to_owned()));
        target.settings = settings(&[(key, value)]);
        let error = set_up_fails(&target);
        assert!(error.contains(expected), "{error}");
    }
    let large = Target { payload_bytes: 2 << 20, connections: 1, ..target(system, Some(address.to_owned())) };
    let error = set_up_fails(&large);
    assert!(error.contains("MESSAGE_TOO_LARGE"), "{error}");
    leaves_nothing(system, address, 7);
}

#[test]
fn kafka() {
    let Some(address) = server("kafka") else { return };
    kafka_at("kafka", &address);
}

#[test]
fn tailrace_kafka() {
    let Some(address) = server("tailrace-kafka") else { return };
    kafka_at("tailrace-kafka", &address);
}

#[cfg(feature = "kafka")]
#[test]
fn kafka_librdkafka() {
    let Some(address) = server("kafka") else { return };
    comes_back("kafka-librdkafka", Some(address), 500);
}
