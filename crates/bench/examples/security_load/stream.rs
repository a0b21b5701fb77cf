//! Sockets with and without TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::{Arguments, Failure};

/// A run that waits this long is stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// How to connect.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) address: String,
    tls: Option<Arc<ClientConfig>>,
}

impl Way {
    /// Takes the address from the argument of this name. With `ca=FILE`, TLS is used.
    pub(crate) fn of(arguments: &Arguments, listener: &str) -> Result<Self, Failure> {
        let tls = arguments.given("ca").map(tls).transpose()?;
        Ok(Self { address: arguments.text(listener)?.to_owned(), tls })
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Connects without TLS.
    pub(crate) fn plain(&self) -> io::Result<TcpStream> {
        let socket = TcpStream::connect(&self.address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket)
    }

    /// Connects, with a whole handshake if TLS is used.
    pub(crate) fn connect(&self) -> Result<Stream, Failure> {
        self.secure(self.plain()?)
    }

    /// Continues a connection with TLS, if TLS is used.
    pub(crate) fn secure(&self, mut socket: TcpStream) -> Result<Stream, Failure> {
        let Some(config) = &self.tls else { return Ok(Stream::Plain(socket)) };
        let mut session = ClientConnection::new(Arc::clone(config), ServerName::try_from("localhost")?)?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(Stream::Tls(Box::new(StreamOwned::new(session, socket))))
    }
}

/// Trusts the certificates in a file. Sessions are never resumed: every handshake is a whole one.
fn tls(file: &str) -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file)? {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(bytes),
            Self::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
