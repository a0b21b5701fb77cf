//! Non-blocking I/O with a server: a TCP connection, plain or with TLS on top.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConnection;

/// Space that a read over TLS must leave before more is read from the socket. What one read decrypts is
/// smaller (a record of 16 KiB and what came with its end), so nothing stays inside TLS, where poll(2) would
/// not see it.
const RECORD_ROOM_BYTES: usize = 32 << 10;

/// Space that [`Transport::read`] needs, in bytes.
pub(super) const READ_ROOM_BYTES_MIN: usize = 2 * RECORD_ROOM_BYTES;

#[derive(Debug)]
pub(super) struct Transport {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Transport {
    /// Wraps a non-blocking connection.
    pub(super) fn plain(stream: TcpStream) -> Self {
        Self { stream, tls: None }
    }

    /// Runs the handshake until `deadline`. From then on all data goes through TLS.
    pub(super) fn secure(&mut self, mut tls: ClientConnection, deadline: Instant) -> io::Result<()> {
        while tls.is_handshaking() {
            push(&mut tls, &mut self.stream)?;
            match tls.read_tls(&mut self.stream) {
                Ok(0) => {
                    let reason = "the server ended the TLS handshake: does it support TLS?";
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, reason));
                }
                Ok(_) => {
                    let judged = tls.process_new_packets();
                    // Sends the alert to the server, if possible.
                    let told = push(&mut tls, &mut self.stream);
                    judged.map_err(|error| io::Error::other(format!("TLS: {error}")))?;
                    told?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(tls.wants_write(), deadline)?
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        push(&mut tls, &mut self.stream)?;
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    fn wait(&self, writable: bool, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(ErrorKind::TimedOut, "the TLS handshake did not end in time"));
        }
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let flags = if writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let _ = poll(&mut [PollFd::from_borrowed_fd(self.stream.as_fd(), flags)], Some(&timeout));
        Ok(())
    }

    /// Reads what has arrived, as much as fits into `room`, which must be at least [`READ_ROOM_BYTES_MIN`].
    /// Returns 0 if the server has closed the connection.
    pub(super) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.stream.read(room) };
        let mut count = 0;
        loop {
            match tls.reader().read(&mut room[count..]) {
                Ok(0) => return Ok(count),
                Ok(more) => count += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if room.len() - count < RECORD_ROOM_BYTES {
                        return Ok(count);
                    }
                    match take(tls, &mut self.stream) {
                        Ok(0) if count > 0 => return Ok(count),
                        Ok(_) => {}
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        // Data comes first; the error will occur again.
                        Err(_) if count > 0 => return Ok(count),
                        Err(error) => return Err(error),
                    }
                }
                // The peer closed the connection without a close_notify.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(count),
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes some of `bytes`. If there are none, sends what TLS still holds.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.stream.write(bytes) };
        push(tls, &mut self.stream)?;
        if tls.wants_write() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = tls.writer().write(bytes)?;
        push(tls, &mut self.stream)?;
        Ok(count)
    }

    pub(super) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Reports whether TLS holds unsent data.
    pub(super) fn holds_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Sends what TLS holds, as far as possible without waiting.
fn push(tls: &mut ClientConnection, stream: &mut TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(stream) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads from the socket, and decrypts.
fn take(tls: &mut ClientConnection, stream: &mut TcpStream) -> io::Result<usize> {
    let count = tls.read_tls(stream)?;
    match tls.process_new_packets() {
        Ok(_) => Ok(count),
        Err(error) => {
            // Sends the alert to the server, if possible. The error stays the same.
            let _ = push(tls, stream);
            Err(io::Error::other(format!("TLS: {error}")))
        }
    }
}
