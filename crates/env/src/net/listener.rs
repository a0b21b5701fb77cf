//! An address on which connections are taken, as those have it who accept.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;

use super::socket::Listen;
use super::stream::Stream;

/// An address on which connections are taken. Those that come wait until they are accepted.
pub struct Listener(Box<dyn Listen>);

impl Listener {
    /// That of this socket.
    pub fn new(socket: Box<dyn Listen>) -> Self {
        Self(socket)
    }

    /// Waits for the next connection; returns it with the address of its other end. Who stops waiting loses none.
    ///
    /// # Errors
    /// This connection, or the world, failed; the next one may not.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let (socket, peer) = poll_fn(|cx| self.0.poll_accept(cx)).await?;
        Ok((Stream::new(socket), peer))
    }

    /// Where it listens; with the port that was picked where 0 was asked for.
    ///
    /// # Errors
    /// The operating system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listener")
    }
}
