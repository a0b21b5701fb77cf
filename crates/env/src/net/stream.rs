//! The connection that callers use.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::socket::{BufferSizes, Socket};
use crate::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One end of a connection. Cheap to clone. Dropping the last clone closes it. One task at a time may wait
/// for each direction, on any clone. If several wait, only the last one is woken.
#[derive(Clone)]
pub struct Stream(Arc<dyn Socket>);

impl Stream {
    /// Wraps a world's socket.
    pub fn new(socket: Arc<dyn Socket>) -> Self {
        Self(socket)
    }

    /// See [`Socket::poll_read_ready`].
    ///
    /// # Errors
    /// The world is ending.
    #[inline]
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read_ready(cx)
    }

    /// See [`Socket::poll_write_ready`].
    ///
    /// # Errors
    /// The world is ending.
    #[inline]
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_write_ready(cx)
    }

    /// Writes as many bytes as there is room for now, and returns their number. With `more`, further bytes
    /// follow at once.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is no room. Any other error means that the connection is
    /// broken.
    #[inline]
    pub fn try_write(&self, buffers: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        self.0.try_write(buffers, more)
    }

    /// Sends up to `count` bytes of a file from `position`, as many as there is room for now. Returns 0 if
    /// the file ends there.
    ///
    /// # Errors
    /// Those of [`Stream::try_write`], and errors of the disk.
    #[inline]
    pub fn try_send_file(&self, file: BorrowedFd<'_>, position: u64, count: usize) -> io::Result<usize> {
        self.0.try_send_file(file, position, count)
    }

    /// See [`Socket::set_buffers`].
    ///
    /// # Errors
    /// The connection is broken, or the world does not permit it.
    pub fn set_buffers(&self, sizes: BufferSizes) -> io::Result<()> {
        self.0.set_buffers(sizes)
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Splits the connection into a half that reads and a half that writes, for two tasks.
    pub fn into_split(self) -> (Self, WriteHalf) {
        (self.clone(), WriteHalf(self))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write(buffers, false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return Poll::Ready(outcome),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// There is no buffer here.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Closes the sending direction. Reading continues.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.shutdown_write())
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stream")
    }
}

/// The half of a connection that writes. Dropping it closes the sending direction, even if the other half
/// lives on.
#[derive(Debug)]
pub struct WriteHalf(Stream);

impl std::ops::Deref for WriteHalf {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.0
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        // Ignored: a broken connection has ended anyway.
        let _ = self.0.0.shutdown_write();
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
