//! An identity provider: signs tokens, and serves its keys over TLS, well and badly.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::certificates::Authority;

/// A signing key with its id.
pub struct Issuer {
    pub key: EcdsaKeyPair,
    pub kid: &'static str,
}

impl Issuer {
    pub fn new(kid: &'static str) -> Self {
        let (random, curve) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let key = EcdsaKeyPair::generate_pkcs8(curve, &random).unwrap();
        Self { key: EcdsaKeyPair::from_pkcs8(curve, key.as_ref(), &random).unwrap(), kid }
    }

    /// Returns the set of its public key.
    pub fn keys(&self) -> String {
        let (x, y) = self.key.public_key().as_ref()[1..].split_at(32);
        let key = json!({ "kty": "EC", "crv": "P-256", "kid": self.kid, "x": encoded(x), "y": encoded(y) });
        json!({ "keys": [key] }).to_string()
    }

    pub fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({ "alg": "ES256", "kid": self.kid }), claims)
    }

    /// Signs with ES256, whatever the header says.
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", encoded(signature))
    }
}

pub fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// What a valid token says that ends after some seconds.
pub fn claims(user: &str, seconds: u64) -> Value {
    let (iat, exp) = (now(), now() + seconds);
    json!({ "iss": "https://idp", "aud": ["kafka"], "sub": user, "iat": iat, "exp": exp })
}

/// How the server with the keys answers.
#[derive(Clone, Debug)]
pub enum Answer {
    Keys(String),
    Status(u16),
    Redirect(String),
    Long,
    Stall,
}

/// The server with the keys.
pub struct KeyServer {
    pub address: SocketAddr,
    pub answer: Arc<Mutex<Answer>>,
    pub requests: Arc<AtomicUsize>,
}

impl KeyServer {
    /// Serves over TLS with the authority's certificate, or without TLS.
    pub async fn start(authority: Option<&Authority>, answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (answer, requests) = (Arc::new(Mutex::new(answer)), Arc::new(AtomicUsize::new(0)));
        let tls = authority.map(acceptor);
        let (answers, counter) = (Arc::clone(&answer), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                let (tls, answer) = (tls.clone(), answers.lock().clone());
                tokio::spawn(async move {
                    match tls {
                        None => respond(stream, answer).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                respond(stream, answer).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, answer, requests }
    }

    pub fn answers(&self, answer: Answer) {
        *self.answer.lock() = answer;
    }

    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// Returns the settings of logins with tokens, with keys from here.
    pub fn settings(&self, scheme: &str) -> Vec<(&'static str, String)> {
        let url = format!("{scheme}://localhost:{}/keys", self.address.port());
        vec![
            ("sasl.enabled.mechanisms", "OAUTHBEARER,PLAIN,SCRAM-SHA-256,SCRAM-SHA-512".to_owned()),
            ("sasl.oauthbearer.jwks.endpoint.url", url),
            ("sasl.oauthbearer.expected.issuer", "https://idp".to_owned()),
            ("sasl.oauthbearer.expected.audience", "kafka,events".to_owned()),
        ]
    }
}

fn acceptor(authority: &Authority) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_file(authority.path("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(authority.path("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn respond(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: Answer) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let text = match answer {
        Answer::Keys(keys) => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{keys}", keys.len()),
        Answer::Status(status) => format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n"),
        Answer::Redirect(to) => format!("HTTP/1.1 302 F\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"),
        Answer::Long => format!("HTTP/1.1 200 OK\r\n\r\n{}", "[".repeat(10 << 20)),
        Answer::Stall => {
            // Longer than any client waits.
            tokio::time::sleep(Duration::from_secs(120)).await;
            return;
        }
    };
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}
