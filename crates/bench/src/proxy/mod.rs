//! A TCP proxy that makes trouble on purpose: latency, jitter, bandwidth limits, stalls, resets, and cuts of
//! one direction.
//!
//! Each direction has its own [`Trouble`]. What happens when depends on the seed and the time alone. The
//! proxy cannot lose or reorder packets, because TCP below it would repair that. It uses four threads per
//! connection: it is meant for tests, not for thousands of connections.

mod connection;
mod options;
mod trouble;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub use options::ProxyOptions;
pub use trouble::Trouble;
pub(crate) use trouble::{random_stalls, random_times};

use connection::Connection;

/// Most connections at the same time.
pub(crate) const CONNECTIONS_MAX: usize = 1024;

/// A running proxy. It stops when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: ProxyOptions,
    begun: Instant,
    stopped: AtomicBool,
    connections: Mutex<Vec<Weak<Connection>>>,
    accepted: AtomicU64,
}

impl Proxy {
    /// Starts a proxy. Its time starts now.
    ///
    /// # Errors
    /// The address is in use, or a thread cannot be started.
    pub fn start(options: ProxyOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            options,
            begun: Instant::now(),
            stopped: AtomicBool::new(false),
            connections: Mutex::default(),
            accepted: AtomicU64::new(0),
        });
        let (accepting, resetting) = (Arc::clone(&shared), Arc::clone(&shared));
        thread::Builder::new()
            .name("proxy-accept".to_owned())
            .spawn(move || accept(&listener, &accepting))?;
        thread::Builder::new().name("proxy-reset".to_owned()).spawn(move || reset_in_time(&resetting))?;
        Ok(Self { address, shared })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Resets all open connections.
    pub fn reset(&self) {
        self.shared.reset();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.shared.reset();
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn reset(&self) {
        for connection in self.connections.lock().drain(..) {
            if let Some(connection) = connection.upgrade() {
                connection.reset();
            }
        }
    }

    fn remember(&self, connection: &Arc<Connection>) -> bool {
        let mut connections = self.connections.lock();
        connections.retain(|connection| connection.strong_count() > 0);
        if connections.len() >= CONNECTIONS_MAX {
            return false;
        }
        connections.push(Arc::downgrade(connection));
        true
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.stopped.load(Ordering::Relaxed) {
            return;
        }
        let Ok(client) = client else { continue };
        let number = shared.accepted.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(shared);
        // Connecting may take a while, and other clients must not wait for it. If it fails, the client's
        // connection is closed.
        let _ = thread::Builder::new().name("proxy-connect".to_owned()).spawn(move || {
            let Ok(server) = dial(&shared.options.upstream) else { return };
            let Ok(connection) = Connection::new(client, server) else { return };
            if shared.remember(&connection) {
                connection::carry(&connection, &shared.options, shared.begun, number);
            }
        });
    }
}

fn dial(upstream: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in upstream.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, Duration::from_secs(10)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn reset_in_time(shared: &Shared) {
    for at in &shared.options.resets {
        loop {
            if shared.stopped.load(Ordering::Relaxed) {
                return;
            }
            let left = at.saturating_sub(shared.begun.elapsed());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(Duration::from_millis(100)));
        }
        shared.reset();
    }
}
