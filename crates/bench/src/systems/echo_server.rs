//! An echo server of our own, to check the instrument itself. It can be frozen.
//!
//! It uses one thread per connection and plain blocking I/O: simple enough to be beyond doubt. Not for many
//! connections.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use parking_lot::{Condvar, Mutex};

use super::wire::line;

/// What the server sends back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoProtocol {
    /// The bytes received.
    Tcp,
    /// The body of each HTTP request, as the body of the response.
    Http,
}

/// Holds back all answers while it is frozen.
#[derive(Debug, Default)]
struct Gate {
    frozen: Mutex<bool>,
    thawed: Condvar,
    passed: AtomicU64,
}

/// A running echo server on a free port of the loopback interface.
#[derive(Debug)]
pub struct EchoServer {
    address: SocketAddr,
    gate: Arc<Gate>,
    stopped: Arc<AtomicBool>,
}

impl EchoServer {
    /// Starts it.
    ///
    /// # Errors
    /// No port is free, or a thread cannot be started.
    pub fn start(protocol: EchoProtocol) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let (gate, stopped) = (Arc::new(Gate::default()), Arc::new(AtomicBool::new(false)));
        let (its_gate, its_stopped) = (Arc::clone(&gate), Arc::clone(&stopped));
        thread::Builder::new()
            .name("echo-accept".to_owned())
            .spawn(move || accept(&listener, protocol, &its_gate, &its_stopped))?;
        Ok(Self { address, gate, stopped })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers sent so far. Over TCP, one answer may be to several messages that came together.
    pub fn answers(&self) -> u64 {
        self.gate.passed.load(Ordering::Relaxed)
    }

    /// Freezes or thaws the server. While frozen it sends no answers; those held back are sent at once
    /// afterwards.
    pub fn freeze(&self, frozen: bool) {
        *self.gate.frozen.lock() = frozen;
        self.gate.thawed.notify_all();
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.freeze(false);
        // Wakes the accepting thread. Connections end when their clients do.
        let _ = TcpStream::connect(self.address);
    }
}

impl Gate {
    fn pass(&self) {
        let mut frozen = self.frozen.lock();
        self.thawed.wait_while(&mut frozen, |frozen| *frozen);
        self.passed.fetch_add(1, Ordering::Relaxed);
    }
}

fn accept(listener: &TcpListener, protocol: EchoProtocol, gate: &Arc<Gate>, stopped: &AtomicBool) {
    for stream in listener.incoming() {
        if stopped.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let gate = Arc::clone(gate);
        // A connection without a thread is closed, which its client reports.
        let _ = thread::Builder::new().name("echo".to_owned()).spawn(move || {
            // A client that disconnects is the normal end.
            let _ = match protocol {
                EchoProtocol::Tcp => serve_tcp(stream, &gate),
                EchoProtocol::Http => serve_http(stream, &gate),
            };
        });
    }
}

fn serve_tcp(mut stream: TcpStream, gate: &Gate) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        gate.pass();
        stream.write_all(&buffer[..count])?;
    }
}

fn serve_http(mut stream: TcpStream, gate: &Gate) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut data, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        while let Some(body) = request_body(&data)? {
            gate.pass();
            let mut answer =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
            answer.extend_from_slice(&data[body.clone()]);
            stream.write_all(&answer)?;
            data.drain(..body.end);
        }
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        data.extend_from_slice(&buffer[..count]);
    }
}

/// The range of the first request's body, if it is complete.
fn request_body(data: &[u8]) -> io::Result<Option<std::ops::Range<usize>>> {
    let (mut at, mut length) = (0, 0);
    loop {
        let Some((header, used)) = line(&data[at..]) else { return Ok(None) };
        at += used;
        if header.is_empty() {
            break;
        }
        let text = String::from_utf8_lossy(header).to_ascii_lowercase();
        if let Some(value) = text.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
        }
    }
    Ok((data.len() - at >= length).then(|| at..at + length))
}
