//! The listening socket that callers use.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;

use super::socket::Listen;
use super::stream::Stream;

/// A listening address. Incoming connections wait until they are accepted.
pub struct Listener(Box<dyn Listen>);

impl Listener {
    /// Wraps a world's listening socket.
    pub fn new(socket: Box<dyn Listen>) -> Self {
        Self(socket)
    }

    /// Waits for the next connection. Returns it with the address of its peer. Cancel safe: no connection is
    /// lost.
    ///
    /// # Errors
    /// This connection or the world failed. The next call may succeed.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let (socket, peer) = poll_fn(|cx| self.0.poll_accept(cx)).await?;
        Ok((Stream::new(socket), peer))
    }

    /// Returns the local address. If port 0 was requested, it has the port that was picked.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listener")
    }
}
