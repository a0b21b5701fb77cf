//! Targets that cannot be measured are reported before the run.

use tailrace_bench::error::BenchError;
use tailrace_bench::systems::{self, EchoProtocol, EchoServer, Target};

use crate::brokerless::BROKERLESS;
use crate::peers::script::{Script, Turn, hear};
use crate::target::{set_up_fails, settings, target};

#[test]
fn wrong_targets_are_named() {
    let unknown = systems::open(&target("carrier-pigeon", None));
    assert!(matches!(unknown, Err(BenchError::UnknownSystem { .. })));
    let mut with_setting = target("nats", None);
    with_setting.settings = settings(&[("colour", "red")]);
    let text = systems::open(&with_setting).err().unwrap().to_string();
    assert_eq!(text, "'colour' is not a setting of the system nats");
}

#[test]
fn a_postgres_that_wants_md5() {
    let mut target = target("postgres", None);
    target.settings = settings(&[("user", "u"), ("database", "d")]);
    let hello = "\0\0\0\x3B\0\x03\0\0user\0u\0database\0d\0application_name\0tailrace bench\0\0";
    let md5 = Turn::Say(b"R\0\0\0\x0C\0\0\0\x05salt".to_vec());
    let script = Script::start(vec![Turn::Accept, hear(hello), md5]);
    target.address = Some(script.address.clone());
    let error = set_up_fails(&target);
    assert!(
        error.contains("wants authentication of kind 5: expected none, a password or SCRAM-SHA-256"),
        "{error}"
    );
    script.finish();
}

#[test]
fn a_payload_that_notify_does_not_take() {
    let target = Target { payload_bytes: 6_000, ..target("postgres", None) };
    let error = systems::open(&target).err().unwrap().to_string();
    assert!(
        error.starts_with("messages of 6000 bytes are too large for NOTIFY: expected at most 5999"),
        "{error}"
    );
}

/// A target of every system that the harness connects to over TCP.
fn targets(address: &str) -> impl Iterator<Item = Target> {
    let address = address.to_owned();
    ["kafka", "nats", "nsq", "postgres", "tailrace-nats"].into_iter().chain(BROKERLESS.iter().copied()).map(
        move |system| {
            let mut target = target(system, Some(address.clone()));
            if BROKERLESS.contains(&system) {
                target.settings = settings(&[("pattern", "request")]);
            }
            target
        },
    )
}

#[test]
fn unreachable_servers_are_named() {
    // Nothing listens on port 1.
    for target in targets("127.0.0.1:1") {
        let error = set_up_fails(&target);
        assert!(error.starts_with("cannot connect to 127.0.0.1:1: "), "{}: {error}", target.system);
    }
}

#[test]
fn a_server_of_another_kind_is_noticed() {
    let server = EchoServer::start(EchoProtocol::Tcp).unwrap();
    for target in targets(&server.address().to_string()) {
        let error = set_up_fails(&target);
        assert!(error.contains("sent an unexpected answer"), "{}: {error}", target.system);
    }
}
