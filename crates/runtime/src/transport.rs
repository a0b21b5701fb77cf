//! What a connection reads from and writes to: a plain socket, or TLS over one.
//!
//! A plain socket stays visible as such, because sendfile and MSG_MORE need it. Everything else is one kind of stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A connection's end of TLS is told to the client if that takes no longer.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// Anything that carries bytes both ways and belongs to one task.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// What carries a Kafka connection.
pub enum Transport {
    /// In clear text.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    /// Appends what has arrived to `input`; ready with 0 at the end of the stream. Room for `room` bytes is made only
    /// once something is there, so that a silent connection keeps no buffer.
    ///
    /// # Errors
    /// The socket's, or what TLS says of bytes that were forged.
    pub fn poll_read(
        &mut self,
        input: &mut BytesMut,
        room: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => loop {
                ready!(stream.poll_read_ready(cx))?;
                input.reserve(room);
                match stream.try_read_buf(input) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    outcome => return Poll::Ready(outcome),
                }
            },
            Self::Tls(stream) => {
                let arrived = match ready!(Pin::new(&mut **stream).poll_fill_buf(cx)) {
                    Ok(arrived) => arrived,
                    // Clients that close without TLS's goodbye are many; a frame that is cut short is noticed anyway.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(0)),
                    Err(error) => return Poll::Ready(Err(error)),
                };
                let count = arrived.len();
                input.reserve(room.max(count));
                input.extend_from_slice(arrived);
                Pin::new(&mut **stream).consume(count);
                Poll::Ready(Ok(count))
            }
        }
    }

    /// Ends the connection. TLS is ended by its goodbye, so that the client can tell the end from a cut.
    pub async fn close(self) {
        if let Self::Tls(mut stream) = self {
            // Whoever takes no goodbye does not get one.
            let _ = tokio::time::timeout(GOODBYE_MAX, stream.shutdown()).await;
        }
    }
}
