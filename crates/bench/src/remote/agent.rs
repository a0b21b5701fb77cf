//! An agent: listens, admits coordinators that have the key, and serves one at a time.
//!
//! A peer that has not proved the key yet gets little time, few bytes, and one of few places. A new stranger
//! displaces the oldest one.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConfig;

use super::RemoteError;
use super::handshake::{Version, with_coordinator};
use super::key::Key;
use super::link::server_config;
use super::session::serve;

/// Most connections that have not proved the key. Each costs a thread and about ten KiB.
const STRANGERS_MAX: usize = 32;

/// How soon an agent's end is noticed.
const CHECK_INTERVAL_NS: i64 = 50_000_000;

/// Receives log lines.
type Log = dyn Fn(&str) + Send + Sync;

/// Options of an agent.
pub(crate) struct AgentOptions {
    /// The address to listen on, `HOST:PORT`; port 0 picks a free one.
    pub listen: String,
    /// The key that coordinators must have.
    pub key: Key,
    /// Shifts the agent's clock by this many nanoseconds, to try the estimate of offsets: for tests and a
    /// hidden option. It may change at any time, and then the clock drifts or jumps.
    pub(crate) clock_shift_ns: Arc<AtomicI64>,
}

impl AgentOptions {
    /// Options with the machine's own clock.
    pub(crate) fn new(listen: String, key: Key) -> Self {
        Self { listen, key, clock_shift_ns: Arc::default() }
    }
}

/// A running agent. Dropping it stops a running load, tears it down, and waits for that.
#[derive(Debug)]
pub struct Agent {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Starts an agent.
    ///
    /// # Errors
    /// It cannot listen on the address.
    pub(crate) fn start(options: AgentOptions, log: Arc<Log>) -> Result<Self, RemoteError> {
        let config = server_config()?;
        let listener = TcpListener::bind(&options.listen)?;
        listener.set_nonblocking(true)?;
        let (address, stop) = (listener.local_addr()?, Arc::new(AtomicBool::new(false)));
        let door = Arc::new(Door {
            config,
            options,
            log,
            stop: Arc::clone(&stop),
            busy: AtomicBool::new(false),
            strangers: Mutex::default(),
        });
        let body = move || accept(&listener, &door);
        let thread = thread::Builder::new().name("agent".to_owned()).spawn(body)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Door {
    config: Arc<ServerConfig>,
    options: AgentOptions,
    log: Arc<Log>,
    stop: Arc<AtomicBool>,
    busy: AtomicBool,
    /// Peers that have not proved the key yet, oldest first.
    strangers: Mutex<VecDeque<(u64, TcpStream)>>,
}

fn accept(listener: &TcpListener, door: &Arc<Door>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut number = 0;
    while !door.stop.load(Ordering::Relaxed) {
        threads.retain(|thread| !thread.is_finished());
        match listener.accept() {
            Ok((stream, peer)) => {
                number += 1;
                let its = Arc::clone(door);
                let entered = door.enter(number, &stream).and_then(|()| {
                    thread::Builder::new()
                        .name("agent-session".to_owned())
                        .spawn(move || its.receive(number, stream, peer))
                });
                match entered {
                    Ok(thread) => threads.push(thread),
                    Err(error) => (door.log)(&format!("cannot serve {peer}: {error}")),
                }
            }
            // Without a free descriptor, for example, the connection would stay ready to be accepted.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_nanos(CHECK_INTERVAL_NS.unsigned_abs()));
            }
            Err(_) => {
                let timeout = Timespec { tv_sec: 0, tv_nsec: CHECK_INTERVAL_NS };
                let _ =
                    poll(&mut [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)], Some(&timeout));
            }
        }
    }
    door.send_strangers_away();
    for thread in threads {
        let _ = thread.join();
    }
}

impl Door {
    fn enter(&self, number: u64, stream: &TcpStream) -> io::Result<()> {
        let mut strangers = self.strangers.lock();
        if strangers.len() >= STRANGERS_MAX
            && let Some((_, oldest)) = strangers.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
        strangers.push_back((number, stream.try_clone()?));
        Ok(())
    }

    fn is_known(&self, number: u64) {
        let mut strangers = self.strangers.lock();
        strangers.retain(|(other, _)| *other != number);
    }

    fn send_strangers_away(&self) {
        let strangers = self.strangers.lock();
        strangers.iter().for_each(|(_, stream)| drop(stream.shutdown(Shutdown::Both)));
    }

    fn receive(&self, number: u64, stream: TcpStream, peer: SocketAddr) {
        let admit = || CoordinatorPlace::take(&self.busy);
        let shaken = with_coordinator(stream, &self.config, &self.options.key, &Version::own(), admit);
        self.is_known(number);
        let (mut link, place) = match shaken {
            Ok(shaken) => shaken,
            Err(error) => return (self.log)(&format!("refused {peer}: {error}")),
        };
        (self.log)(&format!("serving {peer}"));
        let ended = serve(&mut link, &self.options.clock_shift_ns, &self.stop);
        drop(place);
        match ended {
            Ok(()) => (self.log)(&format!("served {peer}")),
            Err(error) => (self.log)(&format!("lost {peer}: {error}; its load was torn down")),
        }
    }
}

/// The slot of the only coordinator.
struct CoordinatorPlace<'a>(&'a AtomicBool);

impl<'a> CoordinatorPlace<'a> {
    fn take(busy: &'a AtomicBool) -> Result<Self, RemoteError> {
        if busy.swap(true, Ordering::AcqRel) {
            return Err(RemoteError::Refused("the agent is busy with another coordinator".to_owned()));
        }
        Ok(Self(busy))
    }
}

impl Drop for CoordinatorPlace<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
