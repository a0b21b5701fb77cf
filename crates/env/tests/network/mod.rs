//! A network in memory that uses only `tailrace_env`. All bytes arrive after the same latency, in any world.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use tailrace_env::io::ReadBuf;
use tailrace_env::net::{BufferSizes, Listen, Socket};
use tailrace_env::time::{self, Duration, Instant, Sleep};

/// The most bytes in flight in one direction.
const ON_THE_WAY_MAX: usize = 64 * 1024;

/// Ephemeral ports start after this one.
const PORTS_AFTER: u16 = 1023;

/// A network with literal addresses only. It resolves no names.
pub(crate) struct Network {
    latency: Duration,
    ports: Mutex<BTreeMap<SocketAddr, Arc<Queue>>>,
}

/// Connections that wait to be accepted.
#[derive(Default)]
struct Queue {
    waiting: Mutex<VecDeque<(Arc<dyn Socket>, SocketAddr)>>,
    acceptor: Mutex<Option<Waker>>,
}

impl Network {
    pub(crate) fn new(latency: Duration) -> Arc<Self> {
        Arc::new(Self { latency, ports: Mutex::default() })
    }

    pub(crate) async fn listen(self: &Arc<Self>, address: &str) -> io::Result<Box<dyn Listen>> {
        let mut address = parse(address)?;
        let mut ports = self.ports.lock().unwrap();
        if address.port() == 0 {
            let last = ports.keys().map(SocketAddr::port).max().unwrap_or(0);
            address.set_port(last.max(PORTS_AFTER) + 1);
        }
        let queue = Arc::<Queue>::default();
        if ports.contains_key(&address) {
            return Err(ErrorKind::AddrInUse.into());
        }
        ports.insert(address, Arc::clone(&queue));
        Ok(Box::new(Port { network: Arc::clone(self), address, queue }))
    }

    pub(crate) async fn connect(self: &Arc<Self>, address: &str) -> io::Result<Arc<dyn Socket>> {
        let there = parse(address)?;
        // The latency passes in simulated time.
        time::sleep(self.latency).await;
        let queue = self.ports.lock().unwrap().get(&there).cloned().ok_or(ErrorKind::ConnectionRefused)?;
        let here = SocketAddr::new(there.ip(), 0);
        let (to, fro) = (Arc::new(Pipe::new(self.latency)), Arc::new(Pipe::new(self.latency)));
        let near = End { incoming: Arc::clone(&fro), outgoing: Arc::clone(&to), address: here };
        let far = End { incoming: to, outgoing: fro, address: there };
        queue.waiting.lock().unwrap().push_back((Arc::new(far), here));
        wake(&mut queue.acceptor.lock().unwrap());
        Ok(Arc::new(near))
    }
}

fn parse(address: &str) -> io::Result<SocketAddr> {
    address.parse().map_err(|_| io::Error::new(ErrorKind::NotFound, format!("nobody is called {address}")))
}

fn wake(waker: &mut Option<Waker>) {
    waker.take().inspect(Waker::wake_by_ref);
}

struct Port {
    network: Arc<Network>,
    address: SocketAddr,
    queue: Arc<Queue>,
}

impl Listen for Port {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Arc<dyn Socket>, SocketAddr)>> {
        *self.queue.acceptor.lock().unwrap() = Some(cx.waker().clone());
        match self.queue.waiting.lock().unwrap().pop_front() {
            Some(accepted) => Poll::Ready(Ok(accepted)),
            None => Poll::Pending,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.network.ports.lock().unwrap().remove(&self.address);
    }
}

/// One direction of a connection.
struct Pipe {
    latency: Duration,
    state: Mutex<PipeState>,
}

#[derive(Default)]
struct PipeState {
    /// The pieces with their arrival times. An empty piece is the end of the stream.
    pieces: VecDeque<(Instant, VecDeque<u8>)>,
    bytes: usize,
    /// The writer has ended the stream.
    ended: bool,
    /// The reader is gone.
    deserted: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    arrival: Option<Sleep>,
}

impl Pipe {
    fn new(latency: Duration) -> Self {
        Self { latency, state: Mutex::default() }
    }

    fn poll_arrived(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock().unwrap();
        state.reader = Some(cx.waker().clone());
        let Some(at) = state.pieces.front().map(|(at, _)| *at) else { return Poll::Pending };
        let arrival = state.arrival.get_or_insert_with(|| time::sleep_until(at));
        if arrival.deadline() != at {
            arrival.reset(at);
        }
        Pin::new(arrival).poll(cx)
    }

    /// Reads what has arrived, as far as there is room for it.
    fn take(&self, buffer: &mut ReadBuf<'_>) {
        let (mut state, now) = (self.state.lock().unwrap(), Instant::now());
        while let Some((_, piece)) =
            state.pieces.front_mut().filter(|(at, piece)| *at <= now && !piece.is_empty())
        {
            let count = buffer.remaining().min(piece.len());
            if count == 0 {
                break;
            }
            let taken: Vec<u8> = piece.drain(..count).collect();
            let is_used_up = piece.is_empty();
            buffer.put_slice(&taken);
            state.bytes -= count;
            if is_used_up {
                state.pieces.pop_front();
            }
        }
        wake(&mut state.writer);
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock().unwrap();
        if state.bytes < ON_THE_WAY_MAX || state.deserted {
            return Poll::Ready(());
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    fn put(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap();
        if state.deserted || state.ended {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let room = ON_THE_WAY_MAX - state.bytes;
        let piece: VecDeque<u8> =
            buffers.iter().flat_map(|buffer| buffer.iter().copied()).take(room).collect();
        let count = piece.len();
        if count == 0 && buffers.iter().any(|buffer| !buffer.is_empty()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        if count > 0 {
            state.bytes += count;
            state.pieces.push_back((Instant::now() + self.latency, piece));
            wake(&mut state.reader);
        }
        Ok(count)
    }

    fn end(&self) {
        let mut state = self.state.lock().unwrap();
        if !std::mem::replace(&mut state.ended, true) {
            state.pieces.push_back((Instant::now() + self.latency, VecDeque::new()));
            wake(&mut state.reader);
        }
    }

    fn desert(&self) {
        let mut state = self.state.lock().unwrap();
        state.deserted = true;
        wake(&mut state.writer);
    }
}

/// One end of a connection.
struct End {
    incoming: Arc<Pipe>,
    outgoing: Arc<Pipe>,
    address: SocketAddr,
}

impl Drop for End {
    fn drop(&mut self) {
        self.outgoing.end();
        self.incoming.desert();
    }
}

impl Socket for End {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.incoming.poll_arrived(cx).map(Ok)
    }

    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.incoming.poll_arrived(cx));
        self.incoming.take(buffer);
        Poll::Ready(Ok(()))
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.poll_room(cx).map(Ok)
    }

    fn try_write(&self, buffers: &[IoSlice<'_>], _: bool) -> io::Result<usize> {
        self.outgoing.put(buffers)
    }

    fn try_send_file(&self, _: BorrowedFd<'_>, _: u64, _: usize) -> io::Result<usize> {
        panic!("files of this world have no descriptors");
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.outgoing.end();
        Ok(())
    }

    fn set_buffers(&self, _: BufferSizes) -> io::Result<()> {
        Ok(())
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
