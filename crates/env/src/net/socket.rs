//! The traits that a world's network implements.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::io::ReadBuf;

/// One end of a connection that carries bytes in order, both ways. Written bytes leave at once: they wait
/// neither for more data nor for acknowledgements.
///
/// All methods take `&self`. One task at a time may wait for each direction. If several wait, only the last
/// one is woken.
pub trait Socket: Send + Sync {
    /// Ready when a read may find something: bytes, the end of the stream, or an error. The read may still
    /// find nothing.
    ///
    /// # Errors
    /// The world is ending.
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Appends what has arrived to `buffer`. Ready with nothing added at the end of the stream.
    ///
    /// # Errors
    /// The connection is broken.
    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;

    /// Ready when a write may take something or find an error. The write may still take nothing.
    ///
    /// # Errors
    /// The world is ending.
    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Writes as many of these bytes as there is room for, and returns their number. With `more`, further
    /// bytes follow at once, so these may wait for them. A caller that finds no room continues with
    /// [`Socket::poll_write_ready`].
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is no room. Any other error means that the connection is
    /// broken.
    fn try_write(&self, buffers: &[IoSlice<'_>], more: bool) -> io::Result<usize>;

    /// Like [`Socket::try_write`], for up to `count` bytes of a file from `position`. Returns 0 if the file
    /// ends there. The bytes are not copied through the process. Not called in a world whose files have no
    /// descriptors.
    ///
    /// # Errors
    /// Those of [`Socket::try_write`], and errors of the disk.
    fn try_send_file(&self, file: BorrowedFd<'_>, position: u64, count: usize) -> io::Result<usize>;

    /// Closes the sending direction. Bytes already written still arrive, and reading continues.
    ///
    /// # Errors
    /// The connection is broken.
    fn shutdown_write(&self) -> io::Result<()>;

    /// Sets how many bytes the world buffers per direction, where given. The world may pick other sizes
    /// without reporting them.
    ///
    /// # Errors
    /// The connection is broken, or the world does not permit it.
    fn set_buffers(&self, sizes: BufferSizes) -> io::Result<()>;

    /// Returns the address of this end.
    ///
    /// # Errors
    /// The connection is broken.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// Sizes of the buffers that the world keeps for a connection. `None` leaves the world's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferSizes {
    /// For bytes written and not yet received by the peer.
    pub send: Option<usize>,
    /// For bytes that arrived and were not yet read.
    pub receive: Option<usize>,
}

/// A listening address.
pub trait Listen: Send + Sync {
    /// Accepts the next connection. Returns it with the address of its peer. One task at a time may wait.
    ///
    /// # Errors
    /// This connection or the world failed. The next call may succeed.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Arc<dyn Socket>, SocketAddr)>>;

    /// Returns the local address. If port 0 was requested, it has the port that was picked.
    ///
    /// # Errors
    /// The operating system's error.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// A socket being opened.
pub type Opening<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;
