//! Sockets between nodes, plain or with TLS.

use std::io;
use tailrace_env::time;
use tailrace_env::time::Duration;

use tailrace_env::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tailrace_env::net::{self, Stream};
use tailrace_tls::TlsStream;

/// Both halves of a connection.
pub(super) struct Halves {
    pub(super) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Halves {
    pub(super) fn plain(stream: Stream) -> Self {
        let (reader, writer) = stream.into_split();
        Self { reader: Box::new(reader), writer: Box::new(writer) }
    }

    pub(super) fn tls(stream: TlsStream) -> Self {
        let (reader, writer) = split(stream);
        Self { reader: Box::new(reader), writer: Box::new(writer) }
    }

    pub(super) async fn send_now(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes).await?;
        self.writer.flush().await
    }

    /// Sends, and waits for the other end to close. Closing first, with bytes unread, would take back what
    /// was sent.
    pub(super) async fn send_last(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send_now(bytes).await?;
        self.writer.shutdown().await?;
        let mut ignored = [0; 1024];
        while self.reader.read(&mut ignored).await? > 0 {}
        Ok(())
    }
}

/// Connects to HOST:PORT. Tries every address of the host.
pub(super) async fn connect(address: &str, timeout: Duration) -> io::Result<Stream> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {timeout:?}"));
    time::timeout(timeout, net::connect(address)).await.map_err(|_| late())?
}

/// Returns the host of HOST:PORT, without the brackets of an IPv6 address.
pub(super) fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_host_is_what_stands_before_the_port() {
        for (address, host) in [("a.b:1", "a.b"), ("127.0.0.1:9", "127.0.0.1"), ("[::1]:9", "::1")] {
            assert_eq!(super::host(address), host);
        }
    }
}
