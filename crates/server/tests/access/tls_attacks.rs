//! Strangers at listeners with TLS: handshakes that stop, come in drops, never end, or are made of the
//! smallest records. Each ends in time, costs bounded memory, is counted, and holds nobody up. The plain
//! attacks are in `kafka::login_attacks` and `nats::attacks`.

use std::time::{Duration, Instant};

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tailrace_kafka_wire::messages::MetadataRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::pages::page;
use crate::common::certificates::{Authority, handshake};
use crate::common::lines::Lines;
use crate::common::rig::eventually;
use crate::common::{Client, PATIENCE, TestServer};

/// Most handshakes that are under way: `HANDSHAKES_MAX` in the crate `tls`.
const HANDSHAKES_MAX: usize = 1024;

/// A time that no test takes.
const LONG: (&str, &str) = ("tailrace.tls.handshake.timeout.ms", "300000");

/// A record of a handshake, and of other kinds.
const HANDSHAKE: u8 = 22;
const ALERT: u8 = 21;
const CHANGE_CIPHER_SPEC: u8 = 20;
const DATA: u8 = 23;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Kafka,
    /// After INFO.
    Nats,
    /// Before INFO.
    NatsFirst,
    Http,
}

const DOORS: [Door; 4] = [Door::Kafka, Door::Nats, Door::NatsFirst, Door::Http];

struct World {
    authority: Authority,
    server: TestServer,
    door: Door,
}

impl World {
    async fn new(door: Door, more: &[(&str, &str)]) -> Self {
        let authority = Authority::new();
        let first = if door == Door::NatsFirst { "true" } else { "false" };
        let tls = [
            ("tailrace.kafka.tls", "true"),
            ("tailrace.http.tls", "true"),
            ("tailrace.nats.tls", "required"),
            ("tailrace.nats.tls.handshake.first", first),
        ];
        let settings = authority.settings(&[&tls[..], more].concat());
        let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let server = TestServer::with(&settings).await;
        Self { authority, server, door }
    }

    /// Connects, up to where the handshake begins.
    async fn open(&self) -> TcpStream {
        let address = match self.door {
            Door::Kafka => self.server.kafka(),
            Door::Nats | Door::NatsFirst => self.server.nats(),
            Door::Http => self.server.http(),
        };
        let mut stream = TcpStream::connect(address).await.unwrap();
        if self.door == Door::Nats {
            // INFO, and nothing after it.
            let read = async { while stream.read_u8().await.unwrap() != b'\n' {} };
            timeout(PATIENCE, read).await.unwrap();
        }
        stream
    }

    /// A client that does everything right is served.
    async fn works(&self) {
        let stream = handshake(self.authority.client(None), self.open().await).await.unwrap();
        match self.door {
            Door::Kafka => {
                let request = MetadataRequest { topics: None, ..Default::default() };
                assert_eq!(Client::over(stream).call(9, &request).await.brokers.len(), 1);
            }
            Door::Nats | Door::NatsFirst => {
                let mut lines = Lines::over(stream);
                if self.door == Door::NatsFirst {
                    lines.info().await;
                }
                lines.send("CONNECT {\"verbose\":false}\r\n").await;
                lines.until_pong().await;
            }
            Door::Http => assert_eq!(page(stream, "/healthz", None).await.0, 200),
        }
    }

    /// How many handshakes at the door have failed, as the metrics say.
    async fn failed(&self) -> f64 {
        let reason = match self.door {
            Door::Kafka => "kafka_connections_cut_total{reason=\"tls_handshake\"}",
            Door::Nats | Door::NatsFirst => "nats_connections_cut_total{reason=\"tls_handshake_error\"}",
            Door::Http => "http_connections_cut_total{reason=\"tls_handshake\"}",
        };
        self.metric(reason).await
    }

    async fn metric(&self, name: &str) -> f64 {
        let stream = TcpStream::connect(self.server.http()).await.unwrap();
        let stream = handshake(self.authority.client(None), stream).await.unwrap();
        let (status, _, text) = page(stream, "/metrics", None).await;
        assert_eq!(status, 200);
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("tailrace_{name} ")));
        line.map_or(0.0, |value| value.split(' ').next().unwrap().parse().unwrap())
    }

    async fn fails(&self, times: f64) {
        eventually("the handshakes are counted", || async { self.failed().await >= times }).await;
    }

    /// A handshake by hand.
    async fn by_hand(&self) -> ByHand {
        let name = ServerName::try_from("localhost").unwrap();
        let tls = ClientConnection::new(self.authority.client(None), name).unwrap();
        ByHand { tls, stream: self.open().await }
    }
}

struct ByHand {
    tls: ClientConnection,
    stream: TcpStream,
}

impl ByHand {
    /// What is to be sent now.
    fn taken(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut out).unwrap();
        }
        out
    }

    /// Reads something. `false` at the end.
    async fn reads(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let count = timeout(PATIENCE, self.stream.read(&mut bytes)).await.expect("something, or the end");
        let Ok(count @ 1..) = count else { return false };
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            self.tls.read_tls(&mut rest).unwrap();
            if self.tls.process_new_packets().is_err() {
                return false;
            }
        }
        true
    }

    /// Completes the handshake, whose first message was sent. The words go along with the last message.
    async fn complete_with(&mut self, words: &[u8]) {
        while self.tls.is_handshaking() {
            assert!(self.reads().await, "the server has ended the connection");
            if !self.tls.is_handshaking() {
                std::io::Write::write_all(&mut self.tls.writer(), words).unwrap();
            }
            let out = self.taken();
            self.stream.write_all(&out).await.unwrap();
        }
    }

    async fn complete(&mut self) {
        self.complete_with(b"").await;
    }

    /// Waits until the server says this.
    async fn hears(&mut self, expected: &[u8]) {
        let mut answer = Vec::new();
        while !answer.windows(expected.len()).any(|part| part == expected) {
            assert!(self.reads().await, "{answer:?}");
            // An error says that there is no more.
            let _ = std::io::Read::read_to_end(&mut self.tls.reader(), &mut answer);
        }
    }
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[kind, 3, 1][..], &length, content].concat()
}

/// Cuts a record into records of one byte.
fn in_bytes(whole: &[u8]) -> Vec<u8> {
    whole[5..].iter().flat_map(|byte| record(whole[0], &[*byte])).collect()
}

/// Reads until the server ends the connection.
async fn until_end(stream: &mut TcpStream) {
    let mut bytes = [0; 4096];
    let end = async { while stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {} };
    timeout(PATIENCE, end).await.expect("the server ends the connection");
}

/// Handshakes that stop, each somewhere else.
async fn stopped(world: &World, count: usize) -> Vec<TcpStream> {
    let mut all = Vec::with_capacity(count);
    for number in 0..count {
        let (mut stream, hello) = world.hello().await;
        let part = match number % 5 {
            0 => Vec::new(),
            1 => hello[..1].to_vec(),
            2 => hello[..hello.len() / 2].to_vec(),
            3 => in_bytes(&hello[..hello.len() / 2]),
            // The server answers, and waits.
            _ => hello,
        };
        stream.write_all(&part).await.unwrap();
        all.push(stream);
    }
    all
}

impl World {
    /// A connection, and the client's first message.
    async fn hello(&self) -> (TcpStream, Vec<u8>) {
        let mut client = self.by_hand().await;
        let hello = client.taken();
        (client.stream, hello)
    }
}

#[tokio::test]
async fn a_thousand_handshakes_that_stop_hold_nobody_up_and_end_in_time() {
    for door in DOORS {
        let world = World::new(door, &[("tailrace.tls.handshake.timeout.ms", "20000")]).await;
        world.works().await;
        let mut all = stopped(&world, 1_000).await;
        for _ in 0..3 {
            world.works().await;
        }
        for stream in &mut all {
            until_end(stream).await;
        }
        match door {
            // All but the latest have made room for others.
            Door::Http => {
                let name = "http_connections_cut_total{reason=\"no_place\"}";
                let made_room = world.metric(name).await;
                assert!(made_room >= 900.0 && made_room + world.failed().await >= 1_000.0, "{made_room}");
            }
            _ => world.fails(1_000.0).await,
        }
        world.works().await;
    }
}

/// The oldest ends when there are too many, long before its time.
#[tokio::test]
async fn handshakes_that_are_under_way_are_bounded_at_all_listeners_together() {
    let kafka = World::new(Door::Kafka, &[LONG]).await;
    let more = 40;
    let mut all = stopped(&kafka, HANDSHAKES_MAX + more).await;
    kafka.fails(u32::try_from(more).unwrap().into()).await;
    // They begin nearly in this order.
    for stream in &mut all[..more / 2] {
        until_end(stream).await;
    }
    // The latest is still there, and may go on.
    let latest = all.last().unwrap();
    assert!(latest.try_read(&mut [0; 1]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    kafka.works().await;
    let nats = World { door: Door::Nats, ..kafka };
    nats.works().await;
    World { door: Door::Http, ..nats }.works().await;
}

/// The time is for the whole handshake, whatever comes meanwhile.
#[tokio::test]
async fn a_first_message_that_comes_in_drops_ends_in_time() {
    for door in DOORS {
        let world = World::new(door, &[("tailrace.tls.handshake.timeout.ms", "1000")]).await;
        let (mut stream, hello) = world.hello().await;
        let (began, mut bytes) = (Instant::now(), [0; 256]);
        for drop in &in_bytes(&hello) {
            if stream.write_all(&[*drop]).await.is_err() {
                break;
            }
            let read = timeout(Duration::from_millis(20), stream.read(&mut bytes)).await;
            if matches!(read, Ok(Ok(0) | Err(_))) {
                break;
            }
        }
        assert!(began.elapsed() >= Duration::from_millis(900), "{door:?}: {:?}", began.elapsed());
        until_end(&mut stream).await;
        world.fails(1.0).await;
        world.works().await;
    }
}

/// What never ends costs no more than a handshake may have, and does not wait for its time.
#[tokio::test]
async fn handshakes_without_end_are_cut_at_their_length() {
    let huge = [&[1, 0xff, 0xff, 0xff][..], &[7; 8_000]].concat();
    let endless = [
        ("a huge message", record(HANDSHAKE, &huge)),
        ("a huge message in records of one byte", in_bytes(&record(HANDSHAKE, &huge))),
        ("a huge message, of which only the beginning says so", record(HANDSHAKE, &[1, 0, 0xf0, 0])),
        ("records without content", record(HANDSHAKE, &[])),
        ("warnings", record(ALERT, &[1, 100])),
        ("changes of the cipher", record(CHANGE_CIPHER_SPEC, &[1])),
        ("data before the handshake", record(DATA, &[7; 100])),
        ("a record of the largest length", record(HANDSHAKE, &[1; 0x4000])),
    ];
    for door in DOORS {
        let world = World::new(door, &[LONG]).await;
        for (number, (what, once)) in endless.iter().enumerate() {
            let mut stream = world.open().await;
            let began = Instant::now();
            // Far more than the server may keep. It need not take it.
            let mut sent = 0;
            while sent < 1 << 20 && stream.write_all(once).await.is_ok() {
                sent += once.len();
            }
            until_end(&mut stream).await;
            assert!(began.elapsed() < PATIENCE, "{door:?}: {what}");
            world.fails(f64::from(u32::try_from(number + 1).unwrap())).await;
        }
        world.works().await;
    }
}

/// rustls would keep it, up to 64 KiB.
#[tokio::test]
async fn a_first_message_that_is_longer_than_any_is_cut_before_it_is_complete() {
    for door in DOORS {
        let world = World::new(door, &[LONG]).await;
        let mut stream = world.open().await;
        let beginning = [&[1, 0, 0xf0, 0][..], &[7; 10_000]].concat();
        for _ in 0..4 {
            // The server may have ended it already.
            let _ = stream.write_all(&record(HANDSHAKE, &beginning)).await;
        }
        until_end(&mut stream).await;
        world.fails(1.0).await;
    }
}

/// The words of a client, and how the answer begins.
fn words(door: Door) -> (&'static [u8], &'static [u8]) {
    match door {
        // ApiVersions.
        Door::Kafka => (&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff], &[0, 0, 0, 7]),
        Door::Nats | Door::NatsFirst => (b"CONNECT {\"verbose\":false}\r\nPING\r\n", b"PONG"),
        Door::Http => (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"200 OK"),
    }
}

/// Small records are legal, however small: those of the handshake and those after it.
#[tokio::test]
async fn clients_that_send_records_of_one_byte_are_served() {
    for door in DOORS {
        let world = World::new(door, &[]).await;
        let mut client = world.by_hand().await;
        let hello = client.taken();
        client.stream.write_all(&in_bytes(&hello)).await.unwrap();
        client.complete().await;
        let (words, expected) = words(door);
        for word in words {
            std::io::Write::write_all(&mut client.tls.writer(), &[*word]).unwrap();
            let out = client.taken();
            client.stream.write_all(&out).await.unwrap();
        }
        client.hears(expected).await;
    }
}

/// The server may find a whole record behind the handshake.
#[tokio::test]
async fn clients_that_say_much_along_with_the_handshake_are_served() {
    for door in DOORS {
        let world = World::new(door, &[]).await;
        let mut client = world.by_hand().await;
        let hello = client.taken();
        client.stream.write_all(&hello).await.unwrap();
        let (words, expected) = words(door);
        client.complete_with(&words.repeat((16 << 10) / words.len())).await;
        client.hears(expected).await;
    }
}

/// Each new key costs the server work, and the client none.
#[tokio::test]
async fn a_client_that_changes_its_keys_without_end_is_cut() {
    for door in DOORS {
        let world = World::new(door, &[]).await;
        let mut client = world.by_hand().await;
        let hello = client.taken();
        client.stream.write_all(&hello).await.unwrap();
        client.complete().await;
        let mut sent = Vec::new();
        for _ in 0..200 {
            client.tls.refresh_traffic_keys().unwrap();
            sent.extend(client.taken());
        }
        // The server may end it before it has read everything.
        let _ = client.stream.write_all(&sent).await;
        while client.reads().await {}
        world.works().await;
    }
}

/// Who is connected is served as before.
#[tokio::test]
async fn open_connections_go_on_while_handshakes_stop() {
    let world = World::new(Door::Nats, &[LONG]).await;
    let stream = handshake(world.authority.client(None), world.open().await).await.unwrap();
    let mut lines = Lines::over(stream);
    lines.send("CONNECT {\"verbose\":false}\r\nSUB a 1\r\n").await;
    let strangers = stopped(&world, 500).await;
    for number in 0..20 {
        lines.send(&format!("PUB a 2\r\n{number:02}\r\n")).await;
        let heard = lines.until_pong().await;
        assert!(heard.contains(&format!("{number:02}")), "{heard:?}");
    }
    drop(strangers);
}
