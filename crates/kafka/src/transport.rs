//! The byte stream of a connection: a plain socket, or TLS over one.
//!
//! A plain socket stays visible as such, because files are sent on it without a copy.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tailrace_env::io::{AsyncBufRead as _, AsyncReadExt as _, AsyncWriteExt as _};
use tailrace_env::net::Stream;
use tailrace_env::time::{self, Duration};
use tailrace_tls::{TlsStream, peer_certificate};

/// Longest time for sending TLS's `close_notify` to the client.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// The byte stream of a Kafka connection.
pub(crate) enum Transport {
    /// Unencrypted.
    Plain(Stream),
    /// Encrypted.
    Tls(Box<TlsStream>),
}

impl Transport {
    /// Returns the client's certificate, as DER. The handshake has verified it.
    pub(crate) fn client_certificate(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => peer_certificate(stream),
        }
    }

    /// Appends what has arrived to `input`. Ready with 0 at the end of the stream. Makes room for `room`
    /// bytes only once something has arrived, so that a silent connection keeps no buffer.
    ///
    /// # Errors
    /// An error of the socket, or a TLS error caused by forged bytes.
    pub(crate) fn poll_read(
        &mut self,
        input: &mut BytesMut,
        room: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => {
                ready!(stream.poll_read_ready(cx))?;
                input.reserve(room);
                pin!(stream.read_buf(input)).poll(cx)
            }
            Self::Tls(stream) => {
                let arrived = match ready!(Pin::new(&mut **stream).poll_fill_buf(cx)) {
                    Ok(arrived) => arrived,
                    // Many clients close without TLS's `close_notify`. A truncated frame is noticed anyway.
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

    /// Closes the connection. TLS sends `close_notify`, so that the client can tell a regular end from a
    /// truncation.
    pub(crate) async fn close(self) {
        if let Self::Tls(mut stream) = self {
            // A client that does not accept `close_notify` in time does not get it.
            let _ = time::timeout(GOODBYE_MAX, stream.shutdown()).await;
        }
    }
}
