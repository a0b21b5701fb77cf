//! What a connection reads from and writes to, apart, since both go on at once: a socket, or TLS over one.

use tokio::io::{AsyncRead, AsyncWrite, Empty, ReadHalf, Sink, WriteHalf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::client::TlsStream;

use crate::client::Tls;

type Reader<'a> = &'a mut (dyn AsyncRead + Send + Unpin);
type Writer<'a> = &'a mut (dyn AsyncWrite + Send + Unpin);

/// The two directions.
pub(super) enum Transport {
    Plain(OwnedReadHalf, OwnedWriteHalf),
    Tls(ReadHalf<TlsStream<TcpStream>>, WriteHalf<TlsStream<TcpStream>>),
    /// A handshake failed.
    Closed(Empty, Sink),
}

impl Transport {
    pub(super) fn plain(stream: TcpStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self::Plain(reader, writer)
    }

    /// Makes the handshake. What was read before it belongs to the plain connection.
    pub(super) async fn secure(&mut self, address: &str, tls: &Tls) -> Result<(), String> {
        let closed = Self::Closed(tokio::io::empty(), tokio::io::sink());
        let Self::Plain(reader, writer) = std::mem::replace(self, closed) else {
            return Err("it speaks TLS already".to_owned());
        };
        let stream = reader.reunite(writer).map_err(|error| error.to_string())?;
        let (reader, writer) = tokio::io::split(tls.connect(address, stream).await?);
        *self = Self::Tls(reader, writer);
        Ok(())
    }

    pub(super) fn is_secure(&self) -> bool {
        matches!(self, Self::Tls(..))
    }

    pub(super) fn both(&mut self) -> (Reader<'_>, Writer<'_>) {
        match self {
            Self::Plain(reader, writer) => (reader, writer),
            Self::Tls(reader, writer) => (reader, writer),
            Self::Closed(reader, writer) => (reader, writer),
        }
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_secure() { "Tls" } else { "Plain" })
    }
}
