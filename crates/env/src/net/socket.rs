//! What a world's network is made of.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::io::ReadBuf;

/// One end of a connection that carries bytes in order, both ways. What is written leaves at once: nothing waits for
/// more to come, or for acknowledgements.
///
/// All of it works by `&self`. One task at a time may wait for each direction: of several, the last one is woken.
pub trait Socket: Send + Sync {
    /// Ready when a read may find something: bytes, the end of the stream, or an error. It may find nothing all the
    /// same.
    ///
    /// # Errors
    /// The world is ending.
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Appends what has arrived to `buffer`; ready with nothing added at the end of the stream.
    ///
    /// # Errors
    /// The connection is broken.
    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;

    /// Ready when a write may take something, or find an error. It may take nothing all the same.
    ///
    /// # Errors
    /// The world is ending.
    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Takes as many of these bytes as there is room for, and says how many. `more`: others follow at once, so these
    /// may wait for them. Who is told that there is no room goes on with [`Socket::poll_write_ready`].
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is no room; else the connection is broken.
    fn try_write(&self, buffers: &[IoSlice<'_>], more: bool) -> io::Result<usize>;

    /// As [`Socket::try_write`], of up to `count` bytes of a file from `position` on; 0 if it ends there. They are not
    /// copied through the process. Not asked in a world whose files have no descriptors.
    ///
    /// # Errors
    /// Those of [`Socket::try_write`], and those of the disk.
    fn try_send_file(&self, file: BorrowedFd<'_>, position: u64, count: usize) -> io::Result<usize>;

    /// Ends what this end sends. What was written arrives before that; reading goes on.
    ///
    /// # Errors
    /// The connection is broken.
    fn shutdown_write(&self) -> io::Result<()>;

    /// Sets how many bytes the world holds for either direction, where they are given. It may hold others, and does not
    /// say so.
    ///
    /// # Errors
    /// The connection is broken, or the world does not allow it.
    fn set_buffers(&self, sizes: BufferSizes) -> io::Result<()>;

    /// The address of this end.
    ///
    /// # Errors
    /// The connection is broken.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// Bytes that the world holds for a connection; `None` leaves what it chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferSizes {
    /// Written, and not yet with the other end.
    pub send: Option<usize>,
    /// Arrived, and not yet read.
    pub receive: Option<usize>,
}

/// An address on which connections are taken.
pub trait Listen: Send + Sync {
    /// The next connection, with the address of its other end. One task at a time may wait.
    ///
    /// # Errors
    /// This connection, or the world, failed; the next one may not.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Arc<dyn Socket>, SocketAddr)>>;

    /// Where it listens; with the port that was picked where 0 was asked for.
    ///
    /// # Errors
    /// The operating system's.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// A socket on its way.
pub type Opening<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;
