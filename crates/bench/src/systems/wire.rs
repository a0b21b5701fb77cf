//! A non-blocking TCP connection with a bounded buffer for each direction.
//!
//! Set-up may block, with [`Wire::wait_for`]. This module knows no protocol.

use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};
use rustls::ClientConnection;

use super::transport::{READ_ROOM_BYTES_MIN, Transport};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::Watched;

/// Bytes that may wait to be sent. A message that does not fit must wait outside. A single larger message
/// fits into an empty buffer.
const OUT_BYTES_MAX: usize = 1 << 20;

/// Bytes to ask for in one read.
const READ_BYTES: usize = 256 << 10;

/// Most bytes received and not parsed yet. Four times the largest payload leaves room for Base64 and framing.
const INPUT_BYTES_MAX: usize = 4 * crate::payload::PAYLOAD_BYTES_MAX;

/// Timeout of each step of set-up.
pub(super) const SETUP_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Wire {
    address: String,
    transport: Transport,
    input: Vec<u8>,
    /// `start..end` of `input` was received but not consumed.
    start: usize,
    end: usize,
    out: Vec<u8>,
    written: usize,
    /// Why nothing can be sent any more. What the server sent before is read first, since it may contain the
    /// reason.
    broken: Option<io::Error>,
}

impl Wire {
    /// Connects to `HOST:PORT`.
    pub(super) fn connect(address: &str) -> Result<Self, RequesterError> {
        let wrong = |error| RequesterError::Connect { address: address.to_owned(), error };
        let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for candidate in address.to_socket_addrs().map_err(wrong)? {
            match TcpStream::connect_timeout(&candidate, SETUP_TIMEOUT) {
                Ok(stream) => return Self::of(stream, address),
                Err(error) => last = error,
            }
        }
        Err(wrong(last))
    }

    /// Wraps an established connection. `address` is for errors.
    pub(super) fn of(stream: TcpStream, address: &str) -> Result<Self, RequesterError> {
        let wrong = |error| RequesterError::Connect { address: address.to_owned(), error };
        stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(wrong)?;
        let (input, out) = (vec![0; READ_BYTES], Vec::new());
        let (address, transport) = (address.to_owned(), Transport::plain(stream));
        Ok(Self { address, transport, input, start: 0, end: 0, out, written: 0, broken: None })
    }

    /// Switches to TLS, with a blocking handshake. No data may be in flight in either direction.
    pub(super) fn secure(&mut self, tls: ClientConnection) -> Result<(), RequesterError> {
        if !self.data().is_empty() {
            return Err(self.protocol("nothing before the TLS handshake", self.data()));
        }
        let made = self.transport.secure(tls, Instant::now() + SETUP_TIMEOUT);
        made.map_err(|error| RequesterError::Connect { address: self.address.clone(), error })
    }

    /// Reports whether it uses TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.transport.is_secure()
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The output buffer, if `bytes` more fit into it.
    pub(super) fn room_for(&mut self, bytes: usize) -> Option<&mut Vec<u8>> {
        let waiting = self.out.len() - self.written;
        (waiting == 0 || waiting + bytes <= OUT_BYTES_MAX).then_some(&mut self.out)
    }

    /// The output buffer, for the few bytes that the protocol itself needs.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Sends what it can without waiting. If the server is gone, [`Wire::fill`] reports it.
    pub(super) fn flush(&mut self) -> Result<(), RequesterError> {
        while self.has_unsent() && self.broken.is_none() {
            match self.transport.write(&self.out[self.written..]) {
                Ok(0) if self.written < self.out.len() => return Err(self.closed()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                    self.broken = Some(error);
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        } else if self.written > OUT_BYTES_MAX / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }

    /// Reads what has arrived, without waiting. Returns false if nothing has.
    pub(super) fn fill(&mut self) -> Result<bool, RequesterError> {
        self.make_room()?;
        loop {
            match self.transport.read(&mut self.input[self.end..]) {
                Ok(0) => return Err(self.closed()),
                Ok(count) => {
                    self.end += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return self.broken.take().map_or(Ok(false), |broken| Err(self.failed(broken)));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    /// Data received but not consumed.
    pub(super) fn data(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    /// Reads what has arrived, and takes it apart. `one` handles the message at the start of the data and
    /// returns its size, or `None` if the message is not complete.
    pub(super) fn take_apart(
        &mut self,
        clock: &dyn Clock,
        mut one: impl FnMut(&Heard<'_>) -> Result<Option<usize>, RequesterError>,
    ) -> Result<(), RequesterError> {
        if !self.fill()? {
            return Ok(());
        }
        let at_ns = clock.now_ns();
        let mut used = 0;
        while let Some(bytes) = one(&Heard { at_ns, data: &self.data()[used..], address: &self.address })? {
            used += bytes;
        }
        self.consume(used);
        Ok(())
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        debug_assert!(self.start <= self.end);
    }

    fn make_room(&mut self) -> Result<(), RequesterError> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && self.input.len() - self.end < READ_ROOM_BYTES_MIN {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        // A message larger than the buffer.
        if self.input.len() - self.end < READ_ROOM_BYTES_MIN {
            if self.input.len() >= INPUT_BYTES_MAX {
                return Err(self.protocol("a message that ends", self.data()));
            }
            self.input.resize(self.input.len() * 2, 0);
        }
        Ok(())
    }

    /// Sends everything, and waits until `parse` finds what it looks for. `parse` returns how much it
    /// consumed.
    pub(super) fn wait_for<T>(
        &mut self,
        doing: &'static str,
        parse: impl FnMut(&[u8]) -> Result<Option<(T, usize)>, RequesterError>,
    ) -> Result<T, RequesterError> {
        self.wait_within(SETUP_TIMEOUT, doing, parse)
    }

    /// Like [`Wire::wait_for`], with a timeout of `patience`.
    pub(super) fn wait_within<T>(
        &mut self,
        patience: Duration,
        doing: &'static str,
        mut parse: impl FnMut(&[u8]) -> Result<Option<(T, usize)>, RequesterError>,
    ) -> Result<T, RequesterError> {
        let deadline = Instant::now() + patience;
        loop {
            self.flush()?;
            if let Some((found, used)) = parse(self.data())? {
                self.consume(used);
                return Ok(found);
            }
            if !self.fill()? {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    let timeout_ms = patience.as_millis() as u64;
                    return Err(RequesterError::Timeout { address: self.address.clone(), timeout_ms, doing });
                }
                let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
                let _ = poll(&mut [self.watched().poll_fd()], Some(&timeout));
            }
        }
    }

    pub(super) fn watched(&self) -> Watched<'_> {
        Watched { fd: self.transport.as_fd(), unsent: self.has_unsent() }
    }

    fn has_unsent(&self) -> bool {
        self.written < self.out.len() || self.transport.holds_unsent()
    }

    /// The error for data that the protocol does not allow here.
    pub(super) fn protocol(&self, expected: &'static str, found: &[u8]) -> RequesterError {
        wrong(&self.address, expected, found)
    }

    fn closed(&self) -> RequesterError {
        RequesterError::Closed { address: self.address.clone() }
    }

    fn failed(&self, error: io::Error) -> RequesterError {
        RequesterError::Connection { address: self.address.clone(), error }
    }
}

/// The first line of `data` without its end, and its length with it.
pub(super) fn line(data: &[u8]) -> Option<(&[u8], usize)> {
    let end = data.iter().position(|byte| *byte == b'\n')?;
    let line = &data[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

/// Data that a connection has received, not parsed yet.
#[derive(Debug)]
pub(super) struct Heard<'a> {
    /// When it was read.
    pub(super) at_ns: u64,
    pub(super) data: &'a [u8],
    pub(super) address: &'a str,
}

impl Heard<'_> {
    /// The error for data that the protocol does not allow here.
    pub(super) fn wrong(&self, expected: &'static str) -> RequesterError {
        wrong(self.address, expected, self.data)
    }
}

/// The error for data that is not in the protocol.
pub(super) fn wrong(address: &str, expected: &'static str, found: &[u8]) -> RequesterError {
    let found = String::from_utf8_lossy(&found[..found.len().min(120)]).escape_debug().to_string();
    RequesterError::Protocol { address: address.to_owned(), expected, found }
}

/// The error for the server's own error message.
pub(super) fn refused(address: &str, reason: &[u8]) -> RequesterError {
    RequesterError::Unsupported(format!("{address} says {}", String::from_utf8_lossy(reason)))
}
