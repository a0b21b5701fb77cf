//! NATS over WebSocket on the HTTP port: with `async-nats`, and frame by frame, including compressed, hostile
//! and broken frames.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::common;
use crate::common::TestServer;
use crate::common::certificates::{Authority, handshake};
use crate::common::rig::eventually;
use async_nats::{Client, ConnectOptions};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(20);

const FINAL: u8 = 0x80;
const COMPRESSED: u8 = 0x40;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

const MASK: [u8; 4] = [1, 0x23, 0x45, 0x67];

/// Builds a WebSocket request, as a browser sends it.
fn request(more: &[&str]) -> String {
    let headers = [
        "GET / HTTP/1.1",
        "Host: localhost:8222",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    headers.iter().chain(more).map(|line| format!("{line}\r\n")).collect::<String>() + "\r\n"
}

const OFFER: &str = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits";

/// Reads the status line and headers of an answer.
async fn head<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { break };
        head.push(byte);
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

/// A client that writes WebSocket frames.
pub(crate) struct Frames<S> {
    stream: S,
    compression: bool,
    /// Bytes of messages that were not yet examined.
    unread: Vec<u8>,
}

impl Frames<TcpStream> {
    async fn connect(server: &TestServer, compression: bool) -> Self {
        Self::over(TcpStream::connect(server.http()).await.unwrap(), compression).await
    }

    /// Connects with more headers. The error is the head of an answer that refuses.
    pub(crate) async fn with(server: &TestServer, headers: &[&str]) -> Result<Self, String> {
        let mut stream = TcpStream::connect(server.http()).await.unwrap();
        stream.write_all(request(headers).as_bytes()).await.unwrap();
        let head = head(&mut stream).await;
        let frames = Self { stream, compression: false, unread: Vec::new() };
        head.starts_with("http/1.1 101 ").then_some(frames).ok_or(head)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Frames<S> {
    async fn over(mut stream: S, compression: bool) -> Self {
        let offers = if compression { &[OFFER][..] } else { &[] };
        stream.write_all(request(offers).as_bytes()).await.unwrap();
        let head = head(&mut stream).await;
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"), "{head}");
        assert_eq!(head.contains("permessage-deflate"), compression, "{head}");
        Self { stream, compression, unread: Vec::new() }
    }

    async fn frame(&mut self, first: u8, payload: &[u8]) {
        let mut out = vec![first];
        match payload.len() {
            length @ 0..=125 => out.push(0x80 | u8::try_from(length).unwrap()),
            length @ 126..=65_535 => {
                out.push(0x80 | 126);
                out.extend_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
            }
            length => {
                out.push(0x80 | 127);
                out.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        out.extend_from_slice(&MASK);
        out.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ MASK[at % 4]));
        self.stream.write_all(&out).await.unwrap();
    }

    /// Sends one message, compressed if that was negotiated.
    pub(crate) async fn send(&mut self, text: &[u8]) {
        if self.compression {
            self.frame(FINAL | COMPRESSED | BINARY, &deflated(text)).await;
        } else {
            self.frame(FINAL | BINARY, text).await;
        }
    }

    /// Returns the next frame. `None` at the end.
    async fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        let read = async {
            let (first, second) = (self.stream.read_u8().await.ok()?, self.stream.read_u8().await.ok()?);
            assert_eq!(second & 0x80, 0, "servers do not mask frames");
            let length = match second {
                126 => u64::from(self.stream.read_u16().await.ok()?),
                127 => self.stream.read_u64().await.ok()?,
                length => u64::from(length),
            };
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.stream.read_exact(&mut payload).await.ok()?;
            Some((first, payload))
        };
        tokio::time::timeout(PATIENCE, read).await.expect("a frame in time")
    }

    /// Reads messages up to and including this text. Nothing may follow it.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        while !self.unread.ends_with(end.as_bytes()) {
            let (first, payload) = self.receive().await.expect("a message, not the end of the connection");
            match first & 0x0f {
                BINARY if first & COMPRESSED != 0 => self.unread.extend(inflated(&payload)),
                BINARY => self.unread.extend(payload),
                other => panic!("frame {other}: {payload:?}"),
            }
        }
        String::from_utf8(std::mem::take(&mut self.unread)).unwrap()
    }

    /// Skips to the closing frame, and returns its status and reason.
    async fn closed(&mut self) -> (u16, String) {
        loop {
            let (first, payload) = self.receive().await.expect("a closing frame");
            if first == FINAL | CLOSE {
                let status = payload.first_chunk().map_or(0, |status| u16::from_be_bytes(*status));
                assert!(self.receive().await.is_none(), "nothing may follow a close frame");
                return (status, String::from_utf8(payload.get(2..).unwrap_or_default().to_vec()).unwrap());
            }
        }
    }
}

fn deflated(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + 1024);
    Compress::new(Compression::best(), false).compress_vec(payload, &mut out, FlushCompress::Sync).unwrap();
    out.truncate(out.len() - 4);
    out
}

fn inflated(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 << 20);
    let whole = [payload, &[0, 0, 0xff, 0xff]].concat();
    Decompress::new(false).decompress_vec(&whole, &mut out, FlushDecompress::Sync).unwrap();
    out
}

async fn connect(server: &TestServer, scheme: &str, options: ConnectOptions) -> Client {
    let address = format!("{scheme}://localhost:{}", server.http().port());
    options.connection_timeout(Duration::from_secs(5)).connect(address).await.unwrap()
}

#[tokio::test]
async fn async_nats_over_websocket_and_over_tcp_see_the_same_messages() {
    let server = TestServer::start().await;
    let web = connect(&server, "ws", ConnectOptions::new()).await;
    let tcp = async_nats::connect(format!("nats://{}", server.nats())).await.unwrap();
    for (from, to) in [(&web, &tcp), (&tcp, &web)] {
        let mut subscription = to.subscribe("data.>").await.unwrap();
        to.flush().await.unwrap();
        for number in 0..200usize {
            let payload = vec![u8::try_from(number).unwrap(); number * 500];
            from.publish(format!("data.{number}"), payload.into()).await.unwrap();
        }
        from.flush().await.unwrap();
        for number in 0..200usize {
            let message = tokio::time::timeout(PATIENCE, subscription.next()).await.unwrap().unwrap();
            assert_eq!(message.subject.as_str(), format!("data.{number}"));
            assert!(message.payload == vec![u8::try_from(number).unwrap(); number * 500]);
        }
        let mut requests = to.subscribe("ask").await.unwrap();
        to.flush().await.unwrap();
        let answering = async {
            let request = requests.next().await.unwrap();
            to.publish(request.reply.unwrap(), "answer".into()).await.unwrap();
        };
        let (answer, ()) = tokio::join!(from.request("ask", "?".into()), answering);
        assert_eq!(&answer.unwrap().payload[..], b"answer");
    }
}

#[tokio::test]
async fn websocket_over_tls() {
    let authority = Authority::new();
    let settings = authority.settings(&[("tailrace.http.tls", "true")]);
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let server = TestServer::with(&settings).await;
    let options = ConnectOptions::new().add_root_certificates(authority.path("ca.pem"));
    let client = connect(&server, "wss", options).await;
    let mut subscription = client.subscribe("a").await.unwrap();
    client.publish("a", "over TLS".into()).await.unwrap();
    assert_eq!(&subscription.next().await.unwrap().payload[..], b"over TLS");

    let stream = TcpStream::connect(server.http()).await.unwrap();
    let mut frames = Frames::over(handshake(authority.client(None), stream).await.unwrap(), true).await;
    frames.send(b"CONNECT {\"verbose\":false}\r\nPING\r\n").await;
    let said = frames.until("PONG\r\n").await;
    assert!(said.contains("\"tls_required\":true"), "{said}");
}

#[tokio::test]
async fn frames_are_only_an_envelope_with_compression_and_without() {
    let server = TestServer::start().await;
    for compression in [false, true] {
        let mut frames = Frames::connect(&server, compression).await;
        frames.send(b"CONNECT {\"verbose\":false}\r\nSUB a 1\r\nPING\r\n").await;
        frames.until("PONG\r\n").await;
        // One operation in many frames of every kind, and many operations in one frame.
        frames.frame(FINAL | TEXT, b"PUB a").await;
        frames.frame(BINARY, b" 11").await;
        frames.frame(FINAL | PING, b"meanwhile").await;
        frames.frame(0, b"\r\nhello").await;
        frames.frame(FINAL, b" world\r\n").await;
        frames.send(b"").await;
        assert_eq!(frames.receive().await.unwrap(), (FINAL | PONG, b"meanwhile".to_vec()));
        assert_eq!(frames.until("world\r\n").await, "MSG a 1 11\r\nhello world\r\n");
        let many = "PUB a 3\r\nabc\r\n".repeat(5_000) + "PING\r\n";
        frames.send(many.as_bytes()).await;
        let said = frames.until("PONG\r\n").await;
        assert_eq!(said, "MSG a 1 3\r\nabc\r\n".repeat(5_000) + "PONG\r\n");
        // A large message, in both directions.
        let large = "x".repeat(1 << 20);
        frames.send(format!("PUB a {}\r\n{large}\r\n", large.len()).as_bytes()).await;
        assert_eq!(frames.until("x\r\n").await, format!("MSG a 1 {}\r\n{large}\r\n", large.len()));
        frames.frame(FINAL | CLOSE, &[3, 0xe8]).await;
        assert_eq!(frames.closed().await, (1000, String::new()));
    }
    eventually("the connections end", || async { server.metric("tailrace_nats_connections").await == 0.0 })
        .await;
}

#[tokio::test]
async fn hostile_frames_end_their_connection_and_no_other() {
    let server = TestServer::start().await;
    let watching = connect(&server, "ws", ConnectOptions::new()).await;
    let mut subscription = watching.subscribe("still.here").await.unwrap();
    let bomb = deflated(&b"PING\r\n".repeat(20_000_000));
    assert!(bomb.len() < 1_000_000, "{}", bomb.len());
    for (compression, first, payload, status, part) in [
        (false, FINAL | COMPRESSED | BINARY, &b"x"[..], 1002, "compression was not negotiated"),
        (false, FINAL | 0x10 | BINARY, b"x", 1002, "reserved"),
        (false, FINAL | 7, b"x", 1002, "unknown opcode 7"),
        (false, PING, b"x", 1002, "control frame"),
        (false, FINAL | PING, &[0; 126], 1002, "control frame"),
        (false, FINAL, b"x", 1002, "continuation frame without a message"),
        (false, FINAL | CLOSE, &[1], 1002, "closing frame"),
        (true, FINAL | COMPRESSED | BINARY, &[0xff; 50], 1007, "damaged"),
        (true, FINAL | COMPRESSED | BINARY, &bomb, 1009, "too long"),
    ] {
        let mut frames = Frames::connect(&server, compression).await;
        frames.send(b"CONNECT {\"verbose\":false}\r\n").await;
        frames.frame(first, payload).await;
        let (found, reason) = frames.closed().await;
        assert!(found == status && reason.contains(part), "{first:x}: {found} {reason}");
    }
    let mut unmasked = Frames::connect(&server, false).await;
    unmasked.stream.write_all(b"\x82\x06PING\r\n").await.unwrap();
    assert_eq!(unmasked.closed().await, (1002, "mask bit missing".to_owned()));
    let mut huge = Frames::connect(&server, false).await;
    huge.stream.write_all(&[&[0x82, 0xff][..], &u64::MAX.to_be_bytes(), &MASK].concat()).await.unwrap();
    assert_eq!(huge.closed().await.0, 1009);
    let mut fragmented = Frames::connect(&server, false).await;
    fragmented.frame(BINARY, b"PING").await;
    fragmented.frame(FINAL | BINARY, b"\r\n").await;
    assert_eq!(fragmented.closed().await.0, 1002);
    // NATS errors are reported in the NATS protocol. Then the server closes the socket.
    let mut garbage = Frames::connect(&server, false).await;
    garbage.frame(FINAL | TEXT, b"GET / HTTP/1.1\r\n\r\n").await;
    garbage.until("-ERR 'Unknown Protocol Operation'\r\n").await;
    assert_eq!(garbage.closed().await, (1002, "Protocol Violation".to_owned()));
    let mut greedy = Frames::connect(&server, false).await;
    greedy.send(b"PUB a 99999999\r\n").await;
    greedy.until("-ERR 'Maximum Payload Violation'\r\n").await;
    assert_eq!(greedy.closed().await, (1009, "Maximum Message Payload Exceeded".to_owned()));
    // Half a frame, then silence, then the end.
    let mut half = Frames::connect(&server, true).await;
    half.stream.write_all(&[0x82]).await.unwrap();
    drop(half);

    watching.publish("still.here", "yes".into()).await.unwrap();
    assert_eq!(&subscription.next().await.unwrap().payload[..], b"yes");
    eventually("the other connections end", || async {
        server.metric("tailrace_nats_connections").await == 1.0
    })
    .await;
}

#[tokio::test]
async fn more_websockets_than_http_connections_and_pages_are_still_served() {
    let server = TestServer::start().await;
    let mut all = Vec::new();
    for _ in 0..200 {
        let mut frames = Frames::connect(&server, false).await;
        frames.send(b"CONNECT {\"verbose\":false}\r\nSUB all 1\r\nPING\r\n").await;
        frames.until("PONG\r\n").await;
        all.push(frames);
    }
    assert_eq!(server.get("/healthz").await.0, 200);
    assert_eq!(server.metric("tailrace_nats_connections").await, 200.0);
    let client = async_nats::connect(format!("nats://{}", server.nats())).await.unwrap();
    client.publish("all", "hi".into()).await.unwrap();
    for frames in &mut all {
        assert_eq!(frames.until("hi\r\n").await, "MSG all 1 2\r\nhi\r\n");
    }
}

/// Returns the answer to a request, up to the end of its headers.
async fn answer(server: &TestServer, text: &str) -> String {
    let mut stream = TcpStream::connect(server.http()).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    head(&mut stream).await
}

#[tokio::test]
async fn requests_that_are_no_good_are_refused() {
    let server = TestServer::start().await;
    for (text, status) in [
        (request(&["Origin: http://localhost:8222"]), 101),
        (request(&["Origin: http://evil.example"]), 403),
        (request(&["Origin: https://localhost:8222"]), 403),
        (request(&[]).replace("Version: 13", "Version: 8"), 426),
        (request(&[]).replace("dGhlIHNhbXBsZSBub25jZQ==", "short"), 400),
        (request(&[]).replace("Connection: Upgrade\r\n", ""), 400),
        (request(&[]).replace("GET", "POST"), 405),
        // Any path without a page, as in nats-server.
        (request(&[]).replace("GET /", "GET /other/path?and=more"), 101),
        (request(&[]).replace("GET /", "GET /healthz"), 200),
        (request(&[]).replace("GET /", "GET /varz"), 200),
        (request(&["Origin: http://evil.example"]).replace("GET /", "GET /other"), 403),
        (request(&[]).replace("GET /", "GET /other").replace("Upgrade: websocket\r\n", ""), 404),
        (request(&[]).replace("Upgrade: websocket\r\n", ""), 200),
    ] {
        let found = answer(&server, &text).await;
        assert!(found.starts_with(&format!("http/1.1 {status} ")), "{text}\n{found}");
    }
    let both = answer(&server, &request(&["Sec-WebSocket-Protocol: nats", OFFER])).await;
    assert!(both.contains("sec-websocket-protocol: nats\r\n"), "{both}");
    assert!(
        both.contains("permessage-deflate; server_no_context_takeover; client_no_context_takeover"),
        "{both}"
    );

    let settings = [
        ("tailrace.nats.websocket.origins", "https://app.example,http://localhost:3000"),
        ("tailrace.nats.websocket.compression", "false"),
        ("tailrace.nats.max.connections", "1"),
    ];
    let server = TestServer::with(&settings).await;
    assert!(answer(&server, &request(&["Origin: http://localhost:8222"])).await.starts_with("http/1.1 403 "));
    let mut stream = TcpStream::connect(server.http()).await.unwrap();
    stream.write_all(request(&["Origin: https://app.example", OFFER]).as_bytes()).await.unwrap();
    let accepted = head(&mut stream).await;
    assert!(accepted.starts_with("http/1.1 101 ") && !accepted.contains("deflate"), "{accepted}");
    // Once INFO arrives, the connection counts.
    stream.read_u8().await.unwrap();
    assert!(answer(&server, &request(&[])).await.starts_with("http/1.1 503 "));

    let off = TestServer::with(&[("tailrace.nats.websocket", "false")]).await;
    assert!(answer(&off, &request(&[])).await.starts_with("http/1.1 200 "));
}

#[tokio::test]
async fn users_are_asked_for_here_too() {
    let server = TestServer::with(&[("tailrace.nats.user", "alice"), ("tailrace.nats.password", "p")]).await;
    let options = ConnectOptions::with_user_and_password("alice".to_owned(), "p".to_owned());
    let client = connect(&server, "ws", options).await;
    client.flush().await.unwrap();
    let mut frames = Frames::connect(&server, true).await;
    frames.send(b"CONNECT {\"user\":\"alice\",\"pass\":\"q\"}\r\nSUB > 1\r\n").await;
    let said = frames.until("'\r\n").await;
    assert!(said.ends_with("-ERR 'Authorization Violation'\r\n"), "{said}");
    assert_eq!(frames.closed().await, (1008, "Authentication Failure".to_owned()));
}

#[tokio::test]
async fn a_server_that_stops_closes_them_as_it_should() {
    let mut server = TestServer::start().await;
    let mut frames = Frames::connect(&server, true).await;
    frames.send(b"CONNECT {\"verbose\":false}\r\nPING\r\n").await;
    frames.until("PONG\r\n").await;
    let closing = tokio::spawn(async move { frames.closed().await });
    server.stop().await;
    assert_eq!(closing.await.unwrap(), (1001, "Server Shutdown".to_owned()));
}

#[tokio::test]
async fn one_that_does_not_read_is_cut() {
    let settings =
        [("tailrace.nats.write.deadline.ms", "1000"), ("tailrace.nats.max.pending.bytes", "8388608")];
    let server = TestServer::with(&settings).await;
    let mut deaf = Frames::connect(&server, true).await;
    deaf.send(b"CONNECT {\"verbose\":false}\r\nSUB flood 1\r\nPING\r\n").await;
    deaf.until("PONG\r\n").await;
    let client = async_nats::connect(format!("nats://{}", server.nats())).await.unwrap();
    // Data that compression cannot shrink.
    let flood: Vec<u8> = common::rig::value(7, 100_000);
    let began = std::time::Instant::now();
    while server.metric("tailrace_nats_slow_consumers_total").await < 1.0 {
        assert!(began.elapsed() < PATIENCE, "the slow consumer was not cut off");
        for _ in 0..10 {
            client.publish("flood", flood.clone().into()).await.unwrap();
        }
        client.flush().await.unwrap();
    }
    client.flush().await.unwrap();
}
