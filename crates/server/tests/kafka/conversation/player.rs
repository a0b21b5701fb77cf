//! Plays a script against a broker.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tailrace_kafka_wire::messages::with_request;
use tailrace_kafka_wire::{ApiKey, Request, RequestVisitor, decode_response};

use super::ask::ask;
use super::show::{Names, show};
use super::words::Words;

/// Codes that mean "not yet": a coordinator or the state of a share group is not available, the end of a
/// transaction is not written everywhere, or a transaction cannot be verified now.
const NOT_YET: [&str; 6] = [
    "CONCURRENT_TRANSACTIONS",
    "UNKNOWN_SERVER_ERROR",
    "NOT_ENOUGH_REPLICAS",
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
];

/// By then a request is answered, and the coordinator is available. Longer than any wait in the scripts.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// By then the server has taken up a request that it will answer later.
const TAKEN_WITHIN: Duration = Duration::from_millis(200);

/// Pause before a request is repeated.
const LOOK: Duration = Duration::from_millis(50);

pub struct Player {
    address: SocketAddr,
    settles_within: Duration,
    connections: BTreeMap<String, Connection>,
    names: Names,
}

struct Connection {
    stream: TcpStream,
    sent: i32,
    /// Key and version of each request that is not yet answered.
    open: VecDeque<(ApiKey, i16)>,
}

impl Player {
    pub fn new(address: SocketAddr, settles_within: Duration) -> Self {
        Self { address, settles_within, connections: BTreeMap::new(), names: Names::default() }
    }

    /// Executes one line of a script and returns the lines of the answer.
    pub fn say(&mut self, line: &str) -> Vec<String> {
        if line.is_empty() || line.starts_with('#') {
            return Vec::new();
        }
        if let Some(who) = line.strip_suffix('<') {
            return self.hear(who);
        }
        let (who, said) =
            line.split_once('>').unwrap_or_else(|| panic!("{line}: the line does not start with a client"));
        let (said, waits) = match said.strip_prefix('>') {
            Some(said) => (said, false),
            None => (said, true),
        };
        let words = Words::of(said.trim());
        if words.verb == "wait" {
            std::thread::sleep(Duration::from_millis(words.number("ms", 0))); // as the script says
            return Vec::new();
        }
        std::thread::sleep(self.settles_within); // nothing reports when Kafka's brokers have learned of what was done before
        self.ask(who, &words);
        if !waits {
            std::thread::sleep(TAKEN_WITHIN); // nothing reports when a waiting request has started to wait
            return Vec::new();
        }
        let deadline = Instant::now() + ANSWERED_WITHIN;
        loop {
            let answer = self.hear(who);
            // Kafka creates a coordinator when a client first asks for it.
            let comes_later = answer.iter().any(|line| NOT_YET.iter().any(|code| line.contains(code)));
            if !comes_later || Instant::now() >= deadline {
                return answer;
            }
            std::thread::sleep(LOOK); // until the coordinator is available
            self.ask(who, &words);
        }
    }

    fn ask(&mut self, who: &str, words: &Words) {
        let address = self.address;
        let connection = self.connections.entry(who.to_owned()).or_insert_with(|| Connection::to(address));
        connection.sent += 1;
        let (key, frame) = ask(words, connection.sent, &self.names);
        connection.stream.write_all(&frame).expect("the connection is open");
        connection.open.push_back((key, words.version));
    }

    fn hear(&mut self, who: &str) -> Vec<String> {
        let connection = self.connections.get_mut(who).expect("the client has sent a request");
        let (key, version) = connection.open.pop_front().expect("the client has sent a request");
        let Some(answer) = connection.receive() else { return vec!["closes the connection".to_owned()] };
        let debug = with_request(key, Decode { answer, version }).expect("a request that exists");
        show(&debug, &mut self.names)
    }
}

impl Connection {
    fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the listener accepts");
        stream.set_read_timeout(Some(ANSWERED_WITHIN)).expect("the timeout is not zero");
        Self { stream, sent: 0, open: VecDeque::new() }
    }

    /// Receives one frame. `None` if the connection is closed instead.
    fn receive(&mut self) -> Option<Bytes> {
        let mut length = [0; 4];
        if let Err(error) = self.stream.read_exact(&mut length) {
            let is_late = [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind());
            assert!(!is_late, "no answer within {ANSWERED_WITHIN:?}");
            return None;
        }
        let mut frame =
            vec![0; usize::try_from(i32::from_be_bytes(length)).expect("the length is not negative")];
        self.stream.read_exact(&mut frame).expect("a whole frame");
        Some(frame.into())
    }
}

struct Decode {
    answer: Bytes,
    version: i16,
}

impl RequestVisitor for Decode {
    type Output = String;

    fn visit<R: Request>(self) -> String {
        let (_, response) = decode_response::<R>(self.answer, self.version).expect("a well-formed response");
        format!("{response:?}")
    }
}
