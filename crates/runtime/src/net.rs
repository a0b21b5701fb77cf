//! Sockets of the operating system, driven by tokio's event loops.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown};
use tailrace_env::io::ReadBuf;
use tailrace_env::net::{BufferSizes, Listen, Socket};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Connections that the kernel queues until we accept them. The kernel may limit it further
/// (`net.core.somaxconn`). If a storm overflows the queue, SYN cookies leave NATS clients half connected,
/// because they wait for the server to speak first.
const BACKLOG: u32 = 4096;

/// Listens on the first address of a name that can be bound.
pub(crate) async fn listen(address: &str) -> io::Result<Box<dyn Listen>> {
    let mut failed = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
    for address in tokio::net::lookup_host(address).await? {
        match listen_at(address) {
            Ok(listener) => return Ok(Box::new(RealListener(listener))),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Lets a new server bind the port of one that has just exited.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Connects to one of the addresses of a name.
pub(crate) async fn connect(address: &str) -> io::Result<Arc<dyn Socket>> {
    Ok(RealSocket::new(TcpStream::connect(address).await?)?)
}

struct RealListener(TcpListener);

impl Listen for RealListener {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Arc<dyn Socket>, SocketAddr)>> {
        loop {
            let (stream, peer) = ready!(self.0.poll_accept(cx))?;
            // This fails only if the other end has already gone.
            if let Ok(socket) = RealSocket::new(stream) {
                return Poll::Ready(Ok((socket, peer)));
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

struct RealSocket(TcpStream);

impl RealSocket {
    fn new(stream: TcpStream) -> io::Result<Arc<Self>> {
        // Without this, small messages wait for the acknowledgement of earlier ones.
        stream.set_nodelay(true)?;
        Ok(Arc::new(Self(stream)))
    }

    /// Makes a system call that moves bytes, if the socket is ready for it. `wanted` is how many bytes it
    /// could move. If it moves fewer, the socket is drained or full. The next call then waits for the
    /// kernel's next event, which saves a system call that would move nothing.
    fn transfer(
        &self,
        interest: Interest,
        wanted: usize,
        call: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut moved = None;
        // If the call reports that it would block, tokio clears the readiness of the socket, but keeps any
        // event that arrived since.
        let outcome = self.0.try_io(interest, || match call() {
            Ok(bytes) if 0 < bytes && bytes < wanted => {
                moved = Some(bytes);
                Err(io::ErrorKind::WouldBlock.into())
            }
            outcome => outcome,
        });
        moved.map_or(outcome, Ok)
    }
}

impl Socket for RealSocket {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read_ready(cx)
    }

    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            let room = buffer.remaining();
            match self.transfer(Interest::READABLE, room, || self.0.try_read_buf(buffer)) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_write_ready(cx)
    }

    fn try_write(&self, buffers: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let bytes = buffers.iter().map(|buffer| buffer.len()).sum();
        self.transfer(Interest::WRITABLE, bytes, || {
            if !more {
                return self.0.try_write_vectored(buffers);
            }
            let mut control = SendAncillaryBuffer::default();
            let flags = SendFlags::NOSIGNAL | SendFlags::MORE;
            Ok(rustix::net::sendmsg(&self.0, buffers, &mut control, flags)?)
        })
    }

    fn try_send_file(&self, file: BorrowedFd<'_>, mut position: u64, count: usize) -> io::Result<usize> {
        // sendfile may send fewer bytes because the file ends there, so a short count does not mean that the
        // socket is full.
        self.0.try_io(Interest::WRITABLE, || {
            Ok(rustix::fs::sendfile(&self.0, file, Some(&mut position), count)?)
        })
    }

    fn shutdown_write(&self) -> io::Result<()> {
        match rustix::net::shutdown(&self.0, Shutdown::Write) {
            // The other end has reset the connection.
            Ok(()) | Err(Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn set_buffers(&self, sizes: BufferSizes) -> io::Result<()> {
        if let Some(bytes) = sizes.send {
            set_socket_send_buffer_size(&self.0, bytes)?;
        }
        if let Some(bytes) = sizes.receive {
            set_socket_recv_buffer_size(&self.0, bytes)?;
        }
        Ok(())
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}
