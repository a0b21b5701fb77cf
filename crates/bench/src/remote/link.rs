//! A TLS 1.3 connection that carries frames. Certificates prove nothing here: the handshake on top of it
//! proves the key.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, ServerConfig, ServerConnection,
    SignatureScheme,
};

use super::RemoteError;
use super::frames::{Incoming, push};

/// Longest time for the other end to accept no data.
const SENDING_MAX: Duration = Duration::from_secs(10);

/// Size of the secret that only the two ends of one TLS connection know.
const BINDING_BYTES: usize = 32;

/// RFC 5705: the label of the exported secret.
const BINDING_LABEL: &[u8] = b"EXPORTER-tailrace-bench-agent";

/// An agent's TLS configuration, with a certificate of its own that lasts as long as the process.
pub(super) fn server_config() -> Result<Arc<ServerConfig>, RemoteError> {
    let wrong = |error: rcgen::Error| RemoteError::Certificate(error.to_string());
    let certified = rcgen::generate_simple_self_signed(vec!["tailrace-agent".to_owned()]).map_err(wrong)?;
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der())
        .map_err(|reason| RemoteError::Certificate(reason.to_owned()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)?;
    // Sessions are never resumed.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn client_config() -> Result<Arc<ClientConfig>, RemoteError> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Accepts any certificate whose key signed the handshake.
#[derive(Debug)]
pub(crate) struct AnyCertificate(pub(crate) Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A connection between a coordinator and an agent.
pub(super) struct Link {
    stream: TcpStream,
    tls: Connection,
    incoming: Incoming,
    frame_bytes_max: usize,
    buffer: Vec<u8>,
}

impl Link {
    /// The coordinator's end. `frame_bytes_max` is the largest frame.
    pub(super) fn client(stream: TcpStream, frame_bytes_max: usize) -> Result<Self, RemoteError> {
        let name = ServerName::try_from("tailrace-agent").map_err(io::Error::other)?;
        let tls = ClientConnection::new(client_config()?, name)?;
        Self::new(stream, tls.into(), frame_bytes_max)
    }

    /// The agent's end.
    pub(super) fn server(
        stream: TcpStream,
        config: &Arc<ServerConfig>,
        frame_bytes_max: usize,
    ) -> Result<Self, RemoteError> {
        let tls = ServerConnection::new(Arc::clone(config))?;
        Self::new(stream, tls.into(), frame_bytes_max)
    }

    fn new(stream: TcpStream, tls: Connection, frame_bytes_max: usize) -> Result<Self, RemoteError> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, tls, incoming: Incoming::default(), frame_bytes_max, buffer: vec![0; 16_384] })
    }

    /// Sets the largest frame from here on.
    pub(super) fn allow(&mut self, frame_bytes_max: usize) {
        self.frame_bytes_max = frame_bytes_max;
    }

    /// Runs TLS's own handshake. Returns a secret that both ends of this very connection know, and that no
    /// third party can make two connections share.
    pub(super) fn shake_hands(&mut self, until: Instant) -> Result<[u8; BINDING_BYTES], RemoteError> {
        while self.tls.is_handshaking() {
            self.flush(until)?;
            if self.tls.is_handshaking() && !self.read(until)? {
                return Err(RemoteError::Refused("the handshake took too long".to_owned()));
            }
        }
        self.flush(until)?;
        Ok(self.tls.export_keying_material([0; BINDING_BYTES], BINDING_LABEL, None)?)
    }

    /// Sends a frame.
    pub(super) fn send(&mut self, body: &[u8]) -> Result<(), RemoteError> {
        let until = Instant::now() + SENDING_MAX;
        let mut framed = Vec::with_capacity(body.len() + 4);
        push(&mut framed, body, self.frame_bytes_max)?;
        let mut rest = framed.as_slice();
        while !rest.is_empty() {
            // TLS takes as much as its buffer has room for.
            let taken = self.tls.writer().write(rest)?;
            rest = &rest[taken..];
            self.flush(until)?;
        }
        Ok(())
    }

    /// Receives the next frame. `None` if there is none by `until`.
    pub(super) fn receive(&mut self, until: Instant) -> Result<Option<Vec<u8>>, RemoteError> {
        loop {
            if let Some(frame) = self.incoming.next(self.frame_bytes_max)? {
                return Ok(Some(frame.to_vec()));
            }
            if !self.read(until)? {
                return Ok(None);
            }
        }
    }

    /// Sends TLS's close_notify. It does not matter if the peer has left already.
    pub(super) fn close(&mut self) {
        self.tls.send_close_notify();
        let _ = self.flush(Instant::now() + Duration::from_millis(200));
    }

    /// Reads what has arrived, or waits for it. Returns false if nothing came in time.
    fn read(&mut self, until: Instant) -> Result<bool, RemoteError> {
        loop {
            match self.tls.read_tls(&mut self.stream) {
                Ok(0) => return Err(RemoteError::Closed),
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.wait(PollFlags::IN, until) {
                        return Ok(false);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Err(RemoteError::Closed),
                Err(error) => return Err(error.into()),
            }
        }
        if let Err(error) = self.tls.process_new_packets() {
            // Sends the alert to the other end, if it still reads.
            let _ = self.flush(Instant::now());
            return Err(error.into());
        }
        let mut came = false;
        loop {
            match self.tls.reader().read(&mut self.buffer) {
                // Data before a close is delivered first.
                Ok(0) if came => return Ok(true),
                Ok(0) => return Err(RemoteError::Closed),
                Ok(count) => self.incoming.extend(&self.buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error.into()),
            }
            came = true;
        }
    }

    fn flush(&mut self, until: Instant) -> Result<(), RemoteError> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.wait(PollFlags::OUT, until) {
                        return Err(RemoteError::Silent { seconds: SENDING_MAX.as_secs() });
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits until the socket is ready. Returns false if it is not by `until`.
    fn wait(&self, flags: PollFlags, until: Instant) -> bool {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout =
                Timespec { tv_sec: left.as_secs().min(3600) as i64, tv_nsec: left.subsec_nanos().into() };
            let mut watched = [PollFd::from_borrowed_fd(self.stream.as_fd(), flags)];
            match poll(&mut watched, Some(&timeout)) {
                Ok(0) if left.is_zero() => return false,
                // Woken for another reason.
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
    }
}
