//! Queries a system's version over its own protocol.
//!
//! This uses a connection of its own before a run, so that it does not affect the measured adapters. A system
//! that does not answer in time, or whose protocol has no version (Kafka, MQTT), has none here. A plan can
//! have a command that prints it.

use std::time::Duration;

use crate::systems::{Target, converse};

/// Timeout of the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Largest answer to read, in bytes; the longest usual one is RabbitMQ's with 500.
const ANSWER_BYTES_MAX: usize = 65_536;

/// Finds the version in the bytes received so far.
type VersionIn = fn(&[u8]) -> Option<String>;

/// A system's own account of its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Its version.
    pub version: Option<String>,
    /// The commit that it was built from; only NATS servers report it.
    pub commit: Option<String>,
}

/// Queries a target's system at `HOST:PORT`, one of its addresses.
pub(crate) fn ask(target: &Target, address: &str) -> Told {
    let (question, answer): (&[u8], VersionIn) = match target.system.as_str() {
        "nats" | "jetstream" | "tailrace-nats" => (b"", nats),
        "redis" | "redis-streams" | "redis-lists" => (b"INFO server\r\n", redis),
        "rabbitmq" => (b"AMQP\x00\x00\x09\x01", amqp),
        "stomp" => (b"CONNECT\naccept-version:1.2\nhost:/\n\n\0", stomp),
        "http" => (b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", http),
        _ => return Told::default(),
    };
    // Version and commit are in the same line.
    let found = |heard: &[u8]| Some((answer(heard)?, nats_commit(heard)));
    match converse(target, address, question, ANSWER_TIMEOUT, ANSWER_BYTES_MAX, found) {
        Ok((version, commit)) => {
            Told { version: Some(tidy(&version)), commit: commit.map(|commit| tidy(&commit)) }
        }
        Err(_) => Told::default(),
    }
}

/// Removes control characters and limits the length, since it goes into reports.
fn tidy(version: &str) -> String {
    version.chars().filter(|letter| !letter.is_control()).take(200).collect()
}

fn nats_commit(heard: &[u8]) -> Option<String> {
    let line = until(heard, b"\r\n")?;
    let info: serde_json::Value = serde_json::from_str(line.strip_prefix("INFO ")?).ok()?;
    Some(info["git_commit"].as_str().filter(|commit| !commit.is_empty())?.to_owned())
}

/// `INFO {...}`. tailrace puts its name where nats-server puts its compiler.
fn nats(heard: &[u8]) -> Option<String> {
    let line = until(heard, b"\r\n")?;
    let info: serde_json::Value = serde_json::from_str(line.strip_prefix("INFO ")?).ok()?;
    let version = info["version"].as_str()?;
    Some(match info["go"].as_str() {
        Some(go) => format!("{version} ({go})"),
        None => version.to_owned(),
    })
}

/// `redis_version:7.0.15` in a bulk string.
fn redis(heard: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(heard);
    // A line without its end may be incomplete.
    let whole = &text[..text.rfind("\r\n")?];
    whole.split("\r\n").find_map(|line| line.strip_prefix("redis_version:")).map(str::to_owned)
}

/// A header of a CONNECTED frame: `server:RabbitMQ/3.13.7`.
fn stomp(heard: &[u8]) -> Option<String> {
    let frame = until(heard, b"\n\n").or_else(|| until(heard, b"\r\n\r\n"))?;
    let mut lines = frame.lines();
    lines.next().filter(|command| *command == "CONNECTED")?;
    lines.find_map(|line| line.strip_prefix("server:")).map(str::to_owned)
}

fn http(heard: &[u8]) -> Option<String> {
    let head = until(heard, b"\r\n\r\n")?;
    let header = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("server").then(|| value.trim().to_owned())
    });
    header.filter(|value| !value.is_empty())
}

fn until<'a>(heard: &'a [u8], end: &[u8]) -> Option<&'a str> {
    let at = heard.windows(end.len()).position(|window| window == end)?;
    std::str::from_utf8(&heard[..at]).ok()
}

/// The server's properties in Connection.Start of AMQP 0.9.1.
fn amqp(heard: &[u8]) -> Option<String> {
    let mut frame = Bytes(heard);
    // A method on channel 0; then class and method 10, the protocol's version, and the table.
    (frame.take(3)? == [1, 0, 0]).then_some(())?;
    let size = frame.length()?;
    let mut method = Bytes(frame.take(size)?);
    (method.take(4)? == [0, 10, 0, 10]).then_some(())?;
    method.take(2)?;
    let size = method.length()?;
    let mut table = Bytes(method.take(size)?);
    let (mut product, mut version) = (None, None);
    while let Some(name_length) = table.take(1) {
        let name = table.take(usize::from(name_length[0]))?;
        let value = match table.take(1)?[0] {
            b'S' | b'F' | b'x' | b'A' => {
                let size = table.length()?;
                table.take(size)?
            }
            b't' | b'b' | b'B' => table.take(1)?,
            b's' | b'u' | b'U' => table.take(2)?,
            b'I' | b'i' | b'f' => table.take(4)?,
            b'l' | b'L' | b'd' | b'T' => table.take(8)?,
            b'V' => &[],
            _ => return None,
        };
        let text = || Some(String::from_utf8_lossy(value).into_owned());
        match name {
            b"product" => product = text(),
            b"version" => version = text(),
            _ => {}
        }
    }
    Some(format!("{} {}", product?, version?))
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn length(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(bytes)).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::systems::Settings;

    fn target(system: &str) -> Target {
        let (system, settings) = (system.to_owned(), Settings::default());
        Target { system, address: None, connections: 1, payload_bytes: 24, run: 0, settings }
    }

    fn start_frame() -> Vec<u8> {
        let mut table = Vec::new();
        let mut put = |name: &str, kind: u8, value: &[u8]| {
            table.push(name.len() as u8);
            table.extend(name.as_bytes());
            table.push(kind);
            if b"SF".contains(&kind) {
                table.extend((value.len() as u32).to_be_bytes());
            }
            table.extend(value);
        };
        put("capabilities", b'F', b"\x07confirmt\x01");
        put("product", b'S', b"RabbitMQ");
        put("count", b'I', &[0, 0, 0, 7]);
        put("version", b'S', b"3.10.8");
        let mut method = vec![0, 10, 0, 10, 0, 9];
        method.extend((table.len() as u32).to_be_bytes());
        method.extend(table);
        method.extend([0, 0, 0, 5]);
        method.extend(b"PLAIN");
        let mut frame = vec![1, 0, 0];
        frame.extend((method.len() as u32).to_be_bytes());
        frame.extend(method);
        frame.push(0xCE);
        frame
    }

    fn conversations() -> Vec<(&'static str, &'static str, Vec<u8>, &'static str)> {
        let info = b"INFO {\"server_id\":\"N\",\"version\":\"2.15.2\",\"git_commit\":\"a1b2c3d\",\"go\":\"go1.27.3\"}\r\n".to_vec();
        let redis =
            b"$60\r\n# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:00000000\r\nrun_id:123456\r\n"
                .to_vec();
        let stomp = b"CONNECTED\nversion:1.2\nserver:ActiveMQ/6.1.0\n\n\0\n".to_vec();
        let http = b"HTTP/1.1 405 No\r\nserver: nginx/1.22.1\r\n\r\n".to_vec();
        vec![
            ("nats", "", info, "2.15.2 (go1.27.3)"),
            ("redis-streams", "INFO server\r\n", redis, "7.0.15"),
            ("rabbitmq", "AMQP\0\0\t\x01", start_frame(), "RabbitMQ 3.10.8"),
            ("stomp", "CONNECT\n", stomp, "ActiveMQ/6.1.0"),
            ("http", "HEAD / HTTP/1.1\r\n", http, "nginx/1.22.1"),
        ]
    }

    #[test]
    fn systems_tell() {
        for (system, question, answer, version) in conversations() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let server = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut heard = vec![0; question.len()];
                stream.read_exact(&mut heard).unwrap();
                assert_eq!(heard, question.as_bytes());
                // In two pieces, as a network may deliver it.
                let (first, second) = answer.split_at(answer.len() / 2);
                stream.write_all(first).unwrap();
                stream.flush().unwrap();
                stream.write_all(second).unwrap();
            });
            let told = ask(&target(system), &address);
            assert_eq!(told.version.as_deref(), Some(version), "{system}");
            assert_eq!(told.commit.as_deref(), (system == "nats").then_some("a1b2c3d"), "{system}");
            server.join().unwrap();
        }
    }

    #[test]
    fn pieces_are_no_answers() {
        for (system, _, answer, version) in conversations() {
            let read = match system {
                "nats" => nats,
                "redis-streams" => redis,
                "rabbitmq" => amqp,
                "stomp" => stomp,
                _ => http,
            };
            for end in 0..answer.len() {
                let found = read(&answer[..end]);
                assert!(found.is_none() || found.as_deref() == Some(version), "{system} {end} {found:?}");
            }
        }
    }

    #[test]
    fn silence_and_rubbish_are_no_versions() {
        assert_eq!(ask(&target("kafka"), "127.0.0.1:1"), Told::default());
        assert_eq!(ask(&target("nats"), "127.0.0.1:1"), Told::default());
        for read in [nats, redis, amqp, stomp, http] {
            for rubbish in
                [&b"-NOAUTH Authentication required.\r\n\r\n"[..], b"ERROR\nserver:x\n\n\0", &[1, 0, 0, 255]]
            {
                assert_eq!(read(rubbish), None);
            }
        }
        assert_eq!(tidy("1.0\x1b[31m\n"), "1.0[31m");
    }
}
