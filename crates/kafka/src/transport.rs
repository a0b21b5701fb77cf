//! What a connection reads from and writes to: a bare stream, or TLS over one.
//!
//! A bare one stays visible as such, because files are sent on it without a copy.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tailrace_env::io::{AsyncBufRead as _, AsyncReadExt as _, AsyncWriteExt as _};
use tailrace_env::net::Stream;
use tailrace_env::time::{self, Duration};
use tailrace_tls::TlsStream;

/// A connection's end of TLS is told to the client if that takes no longer.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// What carries a Kafka connection.
pub(crate) enum Transport {
    /// In clear text.
    Plain(Stream),
    /// Encrypted.
    Tls(Box<TlsStream>),
}

impl Transport {
    /// Appends what has arrived to `input`; ready with 0 at the end of the stream. Room for `room` bytes is made only
    /// once something is there, so that a silent connection keeps no buffer.
    ///
    /// # Errors
    /// The socket's, or what TLS says of bytes that were forged.
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
    pub(crate) async fn close(self) {
        if let Self::Tls(mut stream) = self {
            // Who takes no goodbye does not get one.
            let _ = time::timeout(GOODBYE_MAX, stream.shutdown()).await;
        }
    }
}
