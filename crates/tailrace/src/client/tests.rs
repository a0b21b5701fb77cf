//! Logins against a server that plays by the rules, and against others that break each of them.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::Parser;
use parking_lot::Mutex;
use ring::{digest, hmac};
use tailrace_kafka_wire::messages::api_versions_response::ApiVersion;
use tailrace_kafka_wire::messages::{
    ApiVersionsResponse, MetadataResponse, SaslAuthenticateRequest, SaslAuthenticateResponse,
    SaslHandshakeRequest, SaslHandshakeResponse,
};
use tailrace_kafka_wire::{
    ApiKey, ErrorCode, Reader, RequestHeader, Response, decode_body, frame_bytes, response_frame,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::sasl::ScramMechanism;
use super::{ClientError, Cluster, ConnectArguments, Connection, block_on};

const USER: &str = "al=ice";
const PASSWORD: &str = "pencil";
const SALT: &[u8] = b"salt of the test";
/// Longest request that the server reads.
const REQUEST_BYTES_MAX: u32 = 1 << 16;

/// What the server does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// It has no SASL, and does not list it.
    NoSasl,
    /// It has no SASL, and lists it, as Kafka does.
    SaslElsewhere,
    /// It lists SaslHandshake version 0 only.
    Old,
    FewIterations,
    OtherNonce,
    WrongSignature,
    NoSignature,
}

/// A server, and what it was sent.
struct Fake {
    fault: Fault,
    mechanisms: &'static [&'static str],
    /// The tokens of SaslAuthenticate, of all connections.
    tokens: Mutex<Vec<Bytes>>,
    /// Connections that were opened.
    opened: Mutex<usize>,
}

impl Fake {
    fn new(fault: Fault, mechanisms: &'static [&'static str]) -> Arc<Self> {
        Arc::new(Self { fault, mechanisms, tokens: Mutex::default(), opened: Mutex::default() })
    }

    /// Serves connections until the runtime ends. Returns the address.
    async fn start(self: &Arc<Self>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let fake = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                *fake.opened.lock() += 1;
                tokio::spawn(Arc::clone(&fake).serve(stream));
            }
        });
        address
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let mut login = None;
        let mut is_in = matches!(self.fault, Fault::NoSasl | Fault::SaslElsewhere);
        loop {
            let mut prefix = [0; 4];
            if stream.read_exact(&mut prefix).await.is_err() {
                return;
            }
            let mut body = vec![0; frame_bytes(prefix, REQUEST_BYTES_MAX).unwrap() as usize];
            stream.read_exact(&mut body).await.unwrap();
            let mut reader = Reader::new(body.into());
            let header = RequestHeader::decode(&mut reader).unwrap();
            let goes_on = match header.api_key {
                ApiKey::ApiVersions => send(&mut stream, &header, &self.versions()).await,
                ApiKey::SaslHandshake => {
                    let request: SaslHandshakeRequest = decode_body(reader, header.api_version).unwrap();
                    let answer = self.shake_hands(&request);
                    login = Some(Server::new(&request.mechanism));
                    send(&mut stream, &header, &answer).await && answer.error_code == 0
                }
                ApiKey::SaslAuthenticate => {
                    let request: SaslAuthenticateRequest = decode_body(reader, header.api_version).unwrap();
                    self.tokens.lock().push(request.auth_bytes.clone());
                    let answer = login.as_mut().unwrap().answer(&request.auth_bytes, self.fault);
                    is_in = answer.error_code == 0;
                    send(&mut stream, &header, &answer).await && is_in
                }
                // Refused before the body is read, and without an answer.
                _ if !is_in => false,
                _ => send(&mut stream, &header, &MetadataResponse::default()).await,
            };
            if !goes_on {
                return;
            }
        }
    }

    fn versions(&self) -> ApiVersionsResponse {
        let handshake = if self.fault == Fault::Old { 0 } else { 1 };
        let mut keys = vec![(ApiKey::Metadata, 9), (ApiKey::ApiVersions, 4)];
        if self.fault != Fault::NoSasl {
            keys.extend([(ApiKey::SaslHandshake, handshake), (ApiKey::SaslAuthenticate, 2)]);
        }
        let api = |(key, max_version): (ApiKey, i16)| ApiVersion {
            api_key: key.code(),
            min_version: 0,
            max_version,
            ..Default::default()
        };
        ApiVersionsResponse { api_keys: keys.into_iter().map(api).collect(), ..Default::default() }
    }

    fn shake_hands(&self, request: &SaslHandshakeRequest) -> SaslHandshakeResponse {
        let code = match () {
            () if self.fault == Fault::SaslElsewhere => ErrorCode::IllegalSaslState,
            () if self.mechanisms.contains(&request.mechanism.as_str()) => ErrorCode::None,
            () => ErrorCode::UnsupportedSaslMechanism,
        };
        let mechanisms = self.mechanisms.iter().map(|&name| name.to_owned()).collect();
        SaslHandshakeResponse { error_code: code.code(), mechanisms }
    }
}

async fn send<R: Response>(stream: &mut TcpStream, header: &RequestHeader, answer: &R) -> bool {
    let frame = response_frame(header.correlation_id, header.api_version, answer).unwrap();
    stream.write_all(&frame.into_bytes().unwrap()).await.is_ok()
}

/// The server's side of one login.
struct Server {
    mechanism: Option<ScramMechanism>,
    /// The parts of AuthMessage so far.
    said: VecDeque<String>,
}

impl Server {
    fn new(mechanism: &str) -> Self {
        let mechanism = ScramMechanism::ALL.into_iter().find(|one| one.name() == mechanism);
        Self { mechanism, said: VecDeque::new() }
    }

    fn answer(&mut self, token: &[u8], fault: Fault) -> SaslAuthenticateResponse {
        let answer = match self.mechanism {
            None => (token == format!("\0{USER}\0{PASSWORD}").as_bytes()).then(String::new),
            Some(_) if self.said.is_empty() => Some(self.challenge(token, fault)),
            Some(mechanism) => self.finish(mechanism, token, fault),
        };
        match answer {
            Some(text) => SaslAuthenticateResponse { auth_bytes: text.into(), ..Default::default() },
            None => SaslAuthenticateResponse {
                error_code: ErrorCode::SaslAuthenticationFailed.code(),
                error_message: Some("Authentication failed:\r\nno".to_owned()),
                ..Default::default()
            },
        }
    }

    fn challenge(&mut self, token: &[u8], fault: Fault) -> String {
        let first = std::str::from_utf8(token).unwrap();
        let bare = first.strip_prefix("n,,").unwrap();
        let nonce = bare.strip_prefix("n=al=3Dice,r=").unwrap();
        let nonce = if fault == Fault::OtherNonce { "x" } else { nonce };
        let iterations = if fault == Fault::FewIterations { 4095 } else { 4096 };
        let challenge = format!("r={nonce}server,s={},i={iterations}", STANDARD.encode(SALT));
        self.said = VecDeque::from([bare.to_owned(), challenge.clone()]);
        challenge
    }

    fn finish(&mut self, mechanism: ScramMechanism, token: &[u8], fault: Fault) -> Option<String> {
        let (hash, algorithm) = match mechanism {
            ScramMechanism::Sha256 => (&digest::SHA256, hmac::HMAC_SHA256),
            ScramMechanism::Sha512 => (&digest::SHA512, hmac::HMAC_SHA512),
        };
        let mac =
            |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(algorithm, key), text).as_ref().to_vec();
        let last = std::str::from_utf8(token).unwrap();
        let (without_proof, proof) = last.split_once(",p=").unwrap();
        let message = format!("{},{},{without_proof}", self.said[0], self.said[1]);
        let salted = mechanism.salted_password(PASSWORD.as_bytes(), SALT, NonZeroU32::new(4096).unwrap());
        let stored = digest::digest(hash, &mac(&salted, b"Client Key"));
        let signature = mac(stored.as_ref(), message.as_bytes());
        let proof = STANDARD.decode(proof).unwrap();
        let key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        if digest::digest(hash, &key).as_ref() != stored.as_ref() {
            return None;
        }
        let server_key = mac(&salted, b"Server Key");
        Some(match fault {
            Fault::NoSignature => String::new(),
            Fault::WrongSignature => format!("v={}", STANDARD.encode(mac(&server_key, b"another message"))),
            _ => format!("v={}", STANDARD.encode(mac(&server_key, message.as_bytes()))),
        })
    }
}

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    connect: ConnectArguments,
}

/// Options of a verb that logs in with `password`.
struct Client {
    dir: tempfile::TempDir,
}

impl Client {
    fn new(password: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("password"), password).unwrap();
        Self { dir }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("password")
    }

    fn arguments(&self, bootstrap: &str, more: &[&str]) -> ConnectArguments {
        let file = self.file();
        let words = ["verb", "-b", bootstrap, "--timeout", "10s", "--password-file", file.to_str().unwrap()];
        Line::parse_from(words.iter().chain(&["--user", USER]).chain(more)).connect
    }
}

const ALL: &[&str] = &["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];
const MECHANISMS: [&str; 3] = ["plain", "scram-sha-256", "SCRAM-SHA-512"];

/// The error of a login with this mechanism at a server with this fault.
fn failed(fake: &Arc<Fake>, password: &str, mechanism: &str) -> String {
    let client = Client::new(password);
    let result = block_on(async {
        // The second address is never tried after a failed login.
        let address = fake.start().await;
        let arguments = client.arguments(&format!("{address},{address}"), &["--sasl-mechanism", mechanism]);
        Ok(Cluster::connect(&arguments).await.map(drop).unwrap_err().to_string())
    });
    result.unwrap()
}

#[test]
fn every_connection_logs_in_with_each_mechanism() {
    for mechanism in MECHANISMS {
        let fake = Fake::new(Fault::None, ALL);
        let client = Client::new("pencil\n");
        let result = block_on(async {
            let arguments = client.arguments(&fake.start().await, &["--sasl-mechanism", mechanism]);
            let mut cluster = Cluster::connect(&arguments).await?;
            cluster.metadata(Some(&[]), false).await?;
            cluster.forget_connections();
            cluster.metadata(Some(&[]), false).await?;
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{mechanism}: {error}"));
        assert_eq!(*fake.opened.lock(), 2);
        let tokens = fake.tokens.lock();
        let per_login = if mechanism == "plain" { 1 } else { 2 };
        assert_eq!(tokens.len(), 2 * per_login);
        let tells = |token: &Bytes| token.windows(PASSWORD.len()).any(|bytes| bytes == PASSWORD.as_bytes());
        assert_eq!(tokens.iter().any(tells), mechanism == "plain");
        assert!(mechanism == "plain" || tokens[0] != tokens[2], "the nonce is new each time");
    }
}

#[test]
fn scram_sha_256_is_the_default() {
    let fake = Fake::new(Fault::None, &["SCRAM-SHA-256"]);
    let client = Client::new(PASSWORD);
    let result = block_on(async {
        Cluster::connect(&client.arguments(&fake.start().await, &[])).await?;
        Ok(())
    });
    result.unwrap();
}

#[test]
fn a_wrong_password_is_one_line_and_is_tried_once() {
    for (mechanism, name) in MECHANISMS.iter().zip(ALL) {
        let fake = Fake::new(Fault::None, ALL);
        let error = failed(&fake, "pencils", mechanism);
        assert!(error.starts_with("cannot log in to 127.0.0.1:"), "{error}");
        let rest =
            format!(" as '{USER}' with {name}: Authentication failed:  no (SASL_AUTHENTICATION_FAILED)");
        assert!(error.ends_with(&rest), "{error}");
        assert!(!error.contains("pencil"), "{error}");
        assert_eq!(*fake.opened.lock(), 1);
    }
}

#[test]
fn a_server_that_breaks_the_rules_is_not_trusted() {
    for (fault, tokens, expected) in [
        (Fault::NoSasl, 0, "this listener has no logins (no SASL); leave out the user"),
        (Fault::SaslElsewhere, 0, "this listener has no logins (no SASL)"),
        (Fault::Old, 0, "older than that of Kafka 1.0"),
        (Fault::FewIterations, 1, "asks for 4095 iterations, which is unsafe"),
        (Fault::OtherNonce, 1, "nonce does not continue ours"),
        (Fault::WrongSignature, 2, "signature is wrong"),
        (Fault::NoSignature, 2, "server-final-message is malformed"),
    ] {
        for mechanism in &MECHANISMS[1..] {
            let fake = Fake::new(fault, ALL);
            let error = failed(&fake, PASSWORD, mechanism);
            assert!(error.contains(expected), "{fault:?}: {error}");
            assert_eq!(fake.tokens.lock().len(), tokens, "{fault:?}");
        }
    }
}

#[test]
fn a_mechanism_that_is_not_offered_is_an_error_with_those_that_are() {
    let fake = Fake::new(Fault::None, &["PLAIN", "SCRAM-SHA-512"]);
    let error = failed(&fake, PASSWORD, "scram-sha-256");
    assert!(error.contains("only PLAIN, SCRAM-SHA-512; choose with --sasl-mechanism"), "{error}");
    assert_eq!(fake.tokens.lock().len(), 0);
}

#[test]
fn a_server_that_demands_a_login_says_so_at_once() {
    let fake = Fake::new(Fault::None, &["SCRAM-SHA-256"]);
    let began = Instant::now();
    let error = block_on(async {
        let address = fake.start().await;
        let line = Line::parse_from(["verb", "-b", &address, "--timeout", "60s"]);
        Ok(Cluster::connect(&line.connect).await.map(drop).unwrap_err().to_string())
    });
    let error = error.unwrap();
    assert!(error.ends_with(" demands a login (SCRAM-SHA-256); name a user with --sasl-user"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(30), "it tried again and again");
}

#[test]
fn without_a_user_nothing_is_asked_of_a_server_without_logins() {
    for fault in [Fault::NoSasl, Fault::SaslElsewhere] {
        let fake = Fake::new(fault, ALL);
        let result = block_on(async {
            let line = Line::parse_from(["verb", "-b", &fake.start().await]);
            let mut cluster = Cluster::connect(&line.connect).await?;
            cluster.metadata(Some(&[]), false).await?;
            Ok(())
        });
        result.unwrap();
        assert_eq!(*fake.opened.lock(), 1, "{fault:?}");
    }
}

#[test]
fn plain_keeps_the_password_from_a_network_that_can_be_read() {
    let fake = Fake::new(Fault::None, ALL);
    let client = Client::new(PASSWORD);
    let result = block_on(async {
        let address = fake.start().await;
        let plain = ["--sasl-mechanism", "plain"];
        let tried = async |more: &[&str]| {
            let login = client.arguments(&address, more).sasl.load()?.unwrap();
            let connection = Connection::open(&address, Duration::from_secs(10), None).await?;
            assert!(connection.is_private() && connection.check_private().is_ok());
            let connection = connection.over_a_network();
            assert!(matches!(connection.check_private(), Err(ClientError::InTheClear { .. })));
            login.run(&connection).await
        };
        let error = tried(&plain).await.unwrap_err().to_string();
        assert!(error.contains("PLAIN would show the password"), "{error}");
        assert_eq!(fake.tokens.lock().len(), 0);
        tried(&[&plain[..], &["--plain-without-tls"]].concat()).await?;
        tried(&["--sasl-mechanism", "scram-sha-256"]).await?;
        Ok(())
    });
    result.unwrap();
}

#[test]
fn a_password_is_never_part_of_debug_output() {
    let client = Client::new(PASSWORD);
    let arguments = client.arguments("localhost", &[]);
    let login = arguments.sasl.load().unwrap().unwrap();
    for text in [format!("{arguments:?}"), format!("{login:?}")] {
        assert!(text.contains(USER) && !text.contains(PASSWORD), "{text}");
    }
}

#[test]
fn options_of_a_login_need_a_user() {
    for words in [
        &["verb", "--password-file", "x"][..],
        &["verb", "--sasl-mechanism", "plain"],
        &["verb", "--user", "a", "--plain-without-tls"],
        &["verb", "--user", ""],
        &["verb", "--user", "a\nb"],
        &["verb", "--user", "a", "--sasl-mechanism", "gssapi"],
    ] {
        assert!(Line::try_parse_from(words).is_err(), "{words:?}");
    }
    let same = ["verb", "--sasl-user", "a", "--sasl-password-file", "/nope"];
    let error = Line::parse_from(same).connect.sasl.load().unwrap_err().to_string();
    assert_eq!(error, "cannot read /nope: no such file or directory");
}
