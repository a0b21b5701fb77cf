//! One connection through the proxy: two directions, each with a thread that reads and one that writes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::options::ProxyOptions;
use super::trouble::{Pacer, Trouble};

/// Largest size of a chunk.
const CHUNK_BYTES: usize = 16 << 10;

/// Most chunks queued in one direction: 4 MiB. Beyond that the sender is slowed down.
const CHUNKS_MAX: usize = 256;

/// How long a thread waits before it checks whether the connection was reset.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Both sockets of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    client: TcpStream,
    server: TcpStream,
    reset: AtomicBool,
}

impl Connection {
    pub(super) fn new(client: TcpStream, server: TcpStream) -> io::Result<Arc<Self>> {
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(POLL_INTERVAL))?;
            stream.set_write_timeout(Some(POLL_INTERVAL))?;
        }
        Ok(Arc::new(Self { client, server, reset: AtomicBool::new(false) }))
    }

    /// Resets the connection: once the threads have dropped the sockets, both peers see a reset, not an end.
    pub(super) fn reset(&self) {
        for stream in [&self.client, &self.server] {
            let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
        }
        self.reset.store(true, Ordering::Relaxed);
    }

    fn is_reset(&self) -> bool {
        self.reset.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Copy)]
enum Way {
    ToServer,
    ToClient,
}

impl Way {
    fn ends(self, connection: &Connection) -> (&TcpStream, &TcpStream) {
        match self {
            Self::ToServer => (&connection.client, &connection.server),
            Self::ToClient => (&connection.server, &connection.client),
        }
    }
}

/// Forwards bytes both ways until the connection ends. Returns at once.
pub(super) fn carry(connection: &Arc<Connection>, options: &ProxyOptions, begun: Instant, number: u64) {
    let ways: [(Way, &Trouble, u64); 2] = [
        (Way::ToServer, &options.to_server, 2 * number),
        (Way::ToClient, &options.to_client, 2 * number + 1),
    ];
    for (way, trouble, stream) in ways {
        let (sender, receiver) = sync_channel(CHUNKS_MAX);
        let mut pacer = Pacer::new(trouble, options.seed, stream);
        let (reading, writing) = (Arc::clone(connection), Arc::clone(connection));
        let reader = move || {
            if read(&reading, way, &mut pacer, begun, &sender).is_err() {
                reading.reset();
            }
        };
        let writer = move || {
            if write(&writing, way, begun, &receiver).is_err() {
                writing.reset();
            }
        };
        let started = thread::Builder::new()
            .name("proxy-read".to_owned())
            .spawn(reader)
            .and_then(|_| thread::Builder::new().name("proxy-write".to_owned()).spawn(writer));
        if started.is_err() {
            connection.reset();
        }
    }
}

/// A chunk, and when it may pass.
type Chunk = (Duration, Vec<u8>);

/// Reads until the end. An empty chunk marks the end.
fn read(
    connection: &Connection,
    way: Way,
    pacer: &mut Pacer,
    begun: Instant,
    chunks: &SyncSender<Chunk>,
) -> io::Result<()> {
    let (mut from, _) = way.ends(connection);
    let mut buffer = vec![0; CHUNK_BYTES];
    while !connection.is_reset() {
        let count = match from.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if waits(&error) => continue,
            Err(error) => return Err(error),
        };
        let chunk = (pacer.passes_at(begun.elapsed(), count), buffer[..count].to_vec());
        if !pass_on(connection, chunks, chunk) || count == 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// Queues a chunk as soon as there is room. Returns false if the receiver is gone.
fn pass_on(connection: &Connection, chunks: &SyncSender<Chunk>, mut chunk: Chunk) -> bool {
    loop {
        match chunks.try_send(chunk) {
            Ok(()) => return true,
            Err(TrySendError::Disconnected(_)) => return false,
            Err(TrySendError::Full(_)) if connection.is_reset() => return false,
            Err(TrySendError::Full(back)) => {
                chunk = back;
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

fn write(connection: &Connection, way: Way, begun: Instant, chunks: &Receiver<Chunk>) -> io::Result<()> {
    let (_, to) = way.ends(connection);
    loop {
        let (at, bytes) = match chunks.recv_timeout(POLL_INTERVAL) {
            Ok(chunk) => chunk,
            Err(RecvTimeoutError::Timeout) if connection.is_reset() => return Ok(()),
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        if !wait_until(connection, begun, at) {
            return Ok(());
        }
        if bytes.is_empty() {
            // The other direction may go on.
            return to.shutdown(Shutdown::Write);
        }
        write_all(connection, to, &bytes)?;
    }
}

/// Waits. Returns false if the connection was reset meanwhile.
fn wait_until(connection: &Connection, begun: Instant, at: Duration) -> bool {
    loop {
        if connection.is_reset() {
            return false;
        }
        let left = at.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(POLL_INTERVAL));
    }
}

fn write_all(connection: &Connection, mut to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() && !connection.is_reset() {
        match to.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if waits(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
