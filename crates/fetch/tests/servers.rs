//! What a web server may answer, over real sockets and real TLS.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tailrace_fetch::{Address, FetchError, Fetcher, Limits, Plain};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const LIMITS: Limits = Limits { time: Duration::from_secs(2), bytes: 1_000 };
const SETTING: &str = "a.setting";

/// An authority, in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn server_for(&self, name: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Answers one connection after the other with these bytes, and then closes it, or says nothing more.
async fn serve(tls: Option<TlsAcceptor>, answer: Vec<u8>, closes: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            match &tls {
                None => drop(tokio::spawn(respond(stream, answer, closes))),
                Some(tls) => {
                    let accepted = tls.accept(stream);
                    tokio::spawn(async move {
                        if let Ok(stream) = accepted.await {
                            respond(stream, answer, closes).await;
                        }
                    });
                }
            }
        }
    });
    address
}

async fn respond(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: Vec<u8>, closes: bool) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("GET /keys?of=us HTTP/1.1\r\n"), "{head}");
    assert!(head.to_ascii_lowercase().contains("\r\nhost: "), "{head}");
    let _ = stream.write_all(&answer).await;
    if closes {
        let _ = stream.shutdown().await;
    } else {
        // Longer than the limit of a fetch.
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}

fn fetcher(url: &str, authorities: Option<PathBuf>) -> Fetcher {
    tailrace_runtime::install();
    Fetcher::new(Address::parse(url, Plain::FromLoopback).unwrap(), SETTING, authorities, LIMITS)
}

async fn answered(answer: &[u8], closes: bool) -> Result<Vec<u8>, FetchError> {
    let address = serve(None, answer.to_vec(), closes).await;
    fetcher(&format!("http://{address}/keys?of=us"), None).fetch().await
}

#[tokio::test]
async fn a_document_comes_whole_however_its_length_is_told() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        b"HTTP/1.0 200 Fine\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\n\r\nhello",
    ] {
        assert_eq!(answered(answer, true).await.unwrap(), b"hello", "{}", answer.escape_ascii());
    }
    // The server need not close the connection.
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(answered(answer, false).await.unwrap(), b"hello");
}

#[tokio::test]
async fn other_answers_are_errors_that_say_what_they_are() {
    let of = async |answer: &[u8]| answered(answer, true).await.unwrap_err();
    let redirect = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/other\r\nContent-Length: 0\r\n\r\n";
    assert!(matches!(of(redirect).await, FetchError::Redirect(302)));
    assert!(matches!(of(b"HTTP/1.1 304 Not Modified\r\n\r\n").await, FetchError::Redirect(304)));
    assert!(matches!(of(b"HTTP/1.1 503 Down\r\n\r\nkeys").await, FetchError::Status(503)));
    assert!(matches!(of(b"HTTP/1.1 204 Nothing\r\n\r\n").await, FetchError::Status(204)));
    let packed = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx";
    assert!(matches!(of(packed).await, FetchError::Encoded));
    for broken in [
        &b""[..],
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let error = of(broken).await;
        assert!(matches!(error, FetchError::Http(_)), "{}: {error}", broken.escape_ascii());
    }
}

/// Ten megabytes cost no more than the limit, whether or not they are announced.
#[tokio::test]
async fn a_large_answer_is_cut_off() {
    let body = vec![b'x'; 10 << 20];
    let announced =
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat();
    let chunk = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len());
    let until_the_end = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &body].concat();
    for answer in [announced, [chunk.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat(), until_the_end] {
        let error = answered(&answer, true).await.unwrap_err();
        assert!(matches!(error, FetchError::TooLong { limit: 1_000 }), "{error}");
    }
    let head = [&b"HTTP/1.1 200 OK\r\nx: "[..], &body, b"\r\n\r\n"].concat();
    assert!(matches!(answered(&head, true).await, Err(FetchError::Http(_))));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(200));
    assert!(matches!(answered(many.as_bytes(), true).await, Err(FetchError::Http(_))));
    let exact = [&b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"[..], &body[..1_000]].concat();
    assert_eq!(answered(&exact, true).await.unwrap().len(), 1_000);
}

#[tokio::test]
async fn a_server_that_stalls_is_left_after_the_limit() {
    for answer in [&b""[..], b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", b"HTTP/1.1 200"] {
        let began = Instant::now();
        let outcome = answered(answer, false).await;
        assert!(matches!(outcome, Err(FetchError::TimedOut { limit_ms: 2_000 })), "{outcome:?}");
        assert!((Duration::from_secs(1)..Duration::from_secs(20)).contains(&began.elapsed()));
    }
    // A server that does not even answer the handshake.
    let address = serve(None, Vec::new(), false).await;
    let authority = Authority::new();
    let outcome = fetcher(&format!("https://{address}/keys"), Some(authority.file())).fetch().await;
    assert!(matches!(outcome, Err(FetchError::TimedOut { .. })), "{outcome:?}");
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let outcome = fetcher(&format!("http://{closed}/keys"), None).fetch().await;
    assert!(matches!(outcome, Err(FetchError::Connect(_))), "{outcome:?}");
}

#[tokio::test]
async fn the_certificate_must_be_of_the_authority_and_for_the_host() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec();
    let (ours, other) = (Authority::new(), Authority::new());
    let url = |address: SocketAddr, host: &str| format!("https://{host}:{}/keys?of=us", address.port());
    let of_localhost = serve(Some(ours.server_for("localhost")), answer.clone(), true).await;
    let by_name = url(of_localhost, "localhost");
    assert_eq!(fetcher(&by_name, Some(ours.file())).fetch().await.unwrap(), b"hello");
    let of_address = serve(Some(ours.server_for("127.0.0.1")), answer.clone(), true).await;
    assert_eq!(fetcher(&url(of_address, "127.0.0.1"), Some(ours.file())).fetch().await.unwrap(), b"hello");

    let is_refused = async |url: &str, file: Option<PathBuf>| {
        let outcome = fetcher(url, file).fetch().await;
        matches!(outcome, Err(FetchError::Handshake(_) | FetchError::Authorities(_)))
    };
    assert!(is_refused(&by_name, Some(other.file())).await, "another authority");
    assert!(is_refused(&by_name, None).await, "the system does not know this authority");
    assert!(is_refused(&url(of_localhost, "127.0.0.1"), Some(ours.file())).await, "another host");
    assert!(is_refused(&by_name, Some(PathBuf::from("/nowhere"))).await);
    assert!(matches!(
        fetcher(&by_name, Some(PathBuf::from("/nowhere"))).check(),
        Err(FetchError::Authorities(_))
    ));
    assert!(fetcher(&by_name, Some(ours.file())).check().is_ok());
}
