//! The network between machines: connections that carry bytes in order, as TCP does, late and in pieces.
//!
//! A machine has one address, 10.0.0.NUMBER. A cut holds back the bytes in one direction between two machines
//! until it ends. They then arrive late. A connection can be reset, for both ends at once. A machine that
//! loses its power says nothing: the other ends of its connections notice when they send and the machine is
//! on again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tailrace_env::io::ReadBuf;
use tailrace_env::net::{BufferSizes, Listen, Socket};

use super::turns::Universe;
use crate::Rng;

/// Bytes in transit or waiting to be read, in each direction of a connection.
const BUFFERED_BYTES: usize = 64 * 1024;

/// The most bytes that one write takes.
const WRITTEN_BYTES: u64 = 32 * 1024;

/// The first of the ports that are picked automatically.
const PICKED_PORTS: u16 = 40_000;

/// Shortest and longest time in transit, in nanoseconds.
const LATENCY_NANOS: (u64, u64) = (20_000, 400_000);

/// All connections of a universe.
#[derive(Clone)]
pub(crate) struct Network {
    universe: Universe,
    state: Arc<Mutex<NetworkState>>,
}

struct NetworkState {
    rng: Rng,
    next_connection: u64,
    next_port: u16,
    /// Machines that are switched on.
    on: BTreeSet<u8>,
    listening: BTreeMap<SocketAddr, Listening>,
    connections: BTreeMap<u64, [End; 2]>,
    /// Directions, as (from, to), whose bytes are held back.
    cuts: BTreeSet<(u8, u8)>,
    /// Additional time in transit for each direction, as (from, to).
    slow: BTreeMap<(u8, u8), Duration>,
}

#[derive(Default)]
struct Listening {
    waiting: VecDeque<(u64, SocketAddr)>,
    accepts: Option<Waker>,
}

/// One end of a connection, with the bytes in transit to it. The end that was dialled is the second.
struct End {
    machine: u8,
    address: SocketAddr,
    coming: VecDeque<(Duration, VecDeque<u8>)>,
    /// The number of these bytes.
    bytes: usize,
    /// When this end learns that the other end will send no more.
    ended: Option<Duration>,
    is_reset: bool,
    /// The end was dropped.
    is_gone: bool,
    reads: Option<Waker>,
    writes: Option<Waker>,
}

impl End {
    fn new(machine: u8, address: SocketAddr) -> Self {
        Self {
            machine,
            address,
            coming: VecDeque::new(),
            bytes: 0,
            ended: None,
            is_reset: false,
            is_gone: false,
            reads: None,
            writes: None,
        }
    }

    /// Returns when the last of the bytes in transit arrives.
    fn last_arrival(&self) -> Duration {
        self.coming.back().map_or(Duration::ZERO, |(arrives, _)| *arrives)
    }

    fn wake(&mut self) {
        self.reads.take().into_iter().chain(self.writes.take()).for_each(Waker::wake);
    }
}

/// Returns the address of a machine.
fn address_of(machine: u8, port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 0, 0, machine), port))
}

fn machine_at(address: SocketAddr) -> Option<u8> {
    match address.ip() {
        IpAddr::V4(ip) if ip.octets()[..3] == [10, 0, 0] => Some(ip.octets()[3]),
        _ => None,
    }
}

fn parse(address: &str) -> io::Result<SocketAddr> {
    address.parse().map_err(|_| io::Error::new(io::ErrorKind::NotFound, "no machine has this name"))
}

impl Network {
    /// Returns the network of a universe, without machines.
    pub(crate) fn new(universe: &Universe) -> Self {
        let state = NetworkState {
            rng: universe.fork(),
            next_connection: 0,
            next_port: PICKED_PORTS,
            on: BTreeSet::new(),
            listening: BTreeMap::new(),
            connections: BTreeMap::new(),
            cuts: BTreeSet::new(),
            slow: BTreeMap::new(),
        };
        Self { universe: universe.clone(), state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn universe(&self) -> &Universe {
        &self.universe
    }

    pub(super) fn switched_on(&self, machine: u8) {
        self.state.lock().on.insert(machine);
    }

    /// Removes a machine. With `is_heard`, only its processes are gone, and its system tells the other ends.
    pub(super) fn switched_off(&self, machine: u8, is_heard: bool) {
        let mut state = self.state.lock();
        state.on.remove(&machine);
        state.listening.retain(|address, _| machine_at(*address) != Some(machine));
        for ends in state.connections.values_mut() {
            for own in 0..2 {
                if ends[own].machine != machine {
                    continue;
                }
                ends[own].is_gone = true;
                if is_heard {
                    ends[1 - own].is_reset = true;
                    ends[1 - own].wake();
                }
            }
        }
        state.connections.retain(|_, ends| !ends.iter().all(|end| end.is_gone));
    }

    /// Holds back the bytes from one machine to another, or lets them go on.
    pub(crate) fn cut(&self, from: u8, to: u8, is_cut: bool) {
        let mut state = self.state.lock();
        if is_cut {
            state.cuts.insert((from, to));
        } else if state.cuts.remove(&(from, to)) {
            for ends in state.connections.values_mut() {
                ends.iter_mut().filter(|end| end.machine == to).for_each(End::wake);
            }
        }
    }

    /// From now on, bytes from one machine to another take this much longer.
    pub(crate) fn slow_down(&self, from: u8, to: u8, by: Duration) {
        self.state.lock().slow.insert((from, to), by);
    }

    /// Resets a connection between two machines, if there is one. `choice` decides which.
    pub(crate) fn reset(&self, one: u8, other: u8, choice: u64) {
        let mut state = self.state.lock();
        let between = |ends: &[End; 2]| {
            let machines = (ends[0].machine, ends[1].machine);
            machines == (one, other) || machines == (other, one)
        };
        let found: Vec<u64> =
            state.connections.iter().filter(|(_, ends)| between(ends)).map(|(id, _)| *id).collect();
        let Some(chosen) = (choice as usize).checked_rem(found.len()) else { return };
        for end in state.connections.get_mut(&found[chosen]).into_iter().flatten() {
            end.is_reset = true;
            end.wake();
        }
    }

    pub(super) fn listen(&self, machine: u8, address: &str) -> io::Result<Box<dyn Listen>> {
        let asked = parse(address)?;
        let mut state = self.state.lock();
        let port = match asked.port() {
            0 => state.pick_port(),
            port => port,
        };
        let address = address_of(machine, port);
        if state.listening.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        state.listening.insert(address, Listening::default());
        Ok(Box::new(ListenerEnd { network: self.clone(), address }))
    }

    /// Tries to connect once. `None` if nobody answers for now.
    pub(super) fn dial(&self, machine: u8, address: &str) -> io::Result<Option<Arc<dyn Socket>>> {
        let there = parse(address)?;
        let Some(number) = machine_at(there) else { return Ok(None) };
        let mut state = self.state.lock();
        let is_cut = state.cuts.contains(&(machine, number)) || state.cuts.contains(&(number, machine));
        if is_cut || !state.on.contains(&number) {
            return Ok(None);
        }
        let here = address_of(machine, state.pick_port());
        let id = state.next_connection;
        let Some(listening) = state.listening.get_mut(&there) else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        listening.waiting.push_back((id, here));
        listening.accepts.take().into_iter().for_each(Waker::wake);
        state.next_connection += 1;
        state.connections.insert(id, [End::new(machine, here), End::new(number, there)]);
        Ok(Some(Arc::new(SocketEnd { network: self.clone(), connection: id, side: 0 })))
    }

    /// Draws a time in transit.
    pub(super) fn latency(&self) -> Duration {
        self.state.lock().latency()
    }
}

impl NetworkState {
    fn pick_port(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(PICKED_PORTS);
        port
    }

    fn latency(&mut self) -> Duration {
        let (least, most) = LATENCY_NANOS;
        Duration::from_nanos(self.rng.between(least, most))
    }
}

struct ListenerEnd {
    network: Network,
    address: SocketAddr,
}

impl Listen for ListenerEnd {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Arc<dyn Socket>, SocketAddr)>> {
        let mut state = self.network.state.lock();
        let Some(listening) = state.listening.get_mut(&self.address) else { return Poll::Pending };
        match listening.waiting.pop_front() {
            Some((connection, peer)) => {
                let end = SocketEnd { network: self.network.clone(), connection, side: 1 };
                Poll::Ready(Ok((Arc::new(end), peer)))
            }
            None => {
                listening.accepts = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Drop for ListenerEnd {
    fn drop(&mut self) {
        let mut state = self.network.state.lock();
        // A listener that was opened after a crash would be a different one.
        let Some(listening) = state.listening.get(&self.address) else { return };
        let waiting: Vec<u64> = listening.waiting.iter().map(|(connection, _)| *connection).collect();
        state.listening.remove(&self.address);
        for connection in waiting {
            if let Some(ends) = state.connections.get_mut(&connection) {
                ends[0].is_reset = true;
                ends[1].is_gone = true;
                ends[0].wake();
            }
        }
    }
}

struct SocketEnd {
    network: Network,
    connection: u64,
    side: usize,
}

/// What can be read.
enum Arrived {
    Bytes,
    End,
    Reset,
    Nothing,
}

impl SocketEnd {
    /// Calls `work` with the state and the two ends, its own first. Returns an error if the connection no
    /// longer exists.
    fn with<T>(
        &self,
        work: impl FnOnce(&mut NetworkSide<'_>, &mut End, &mut End) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.network.state.lock();
        let NetworkState { rng, on, connections, cuts, slow, .. } = &mut *state;
        let ends = connections.get_mut(&self.connection).ok_or(io::ErrorKind::NotConnected)?;
        let [first, second] = ends;
        let (own, other) = if self.side == 0 { (first, second) } else { (second, first) };
        let mut side = NetworkSide { universe: &self.network.universe, rng, on, cuts, slow };
        work(&mut side, own, other)
    }
}

struct NetworkSide<'a> {
    universe: &'a Universe,
    rng: &'a mut Rng,
    on: &'a BTreeSet<u8>,
    cuts: &'a BTreeSet<(u8, u8)>,
    slow: &'a BTreeMap<(u8, u8), Duration>,
}

impl NetworkSide<'_> {
    /// Returns when bytes that a machine sends to `end` now will arrive.
    fn arrival(&mut self, from: u8, end: &End) -> Duration {
        let (least, most) = LATENCY_NANOS;
        let latency = Duration::from_nanos(self.rng.between(least, most));
        let longer = self.slow.get(&(from, end.machine)).copied().unwrap_or_default();
        end.last_arrival().max(self.universe.now() + latency + longer)
    }

    /// Returns what has arrived at `own`. If nothing has, `waker` is woken when something does.
    fn arrived(&self, own: &mut End, other: &End, waker: &Waker) -> Arrived {
        if own.is_reset {
            return Arrived::Reset;
        }
        let is_cut = self.cuts.contains(&(other.machine, own.machine));
        let next = own.coming.front().map(|(arrives, _)| *arrives).or(own.ended);
        match next {
            Some(arrives) if !is_cut && arrives <= self.universe.now() => {
                if own.coming.is_empty() {
                    Arrived::End
                } else {
                    Arrived::Bytes
                }
            }
            Some(arrives) if !is_cut => {
                self.universe.set_timer(arrives, waker.clone());
                Arrived::Nothing
            }
            _ => {
                own.reads = Some(waker.clone());
                Arrived::Nothing
            }
        }
    }

    /// Wakes the reader at `end` when something arrives at this time.
    fn tell(&self, end: &mut End, arrives: Duration) {
        if let Some(waker) = end.reads.take() {
            self.universe.set_timer(arrives, waker);
        }
    }
}

impl Socket for SocketEnd {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let arrived = self.with(|side, own, other| Ok(side.arrived(own, other, cx.waker())))?;
        if matches!(arrived, Arrived::Nothing) { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let arrived = self.with(|side, own, other| {
            let arrived = side.arrived(own, other, cx.waker());
            if matches!(arrived, Arrived::Bytes) {
                let now = side.universe.now();
                while let Some((arrives, bytes)) = own.coming.front_mut()
                    && *arrives <= now
                    && buffer.remaining() > 0
                {
                    let (front, _) = bytes.as_slices();
                    let count = front.len().min(buffer.remaining());
                    buffer.put_slice(&front[..count]);
                    bytes.drain(..count);
                    own.bytes -= count;
                    if bytes.is_empty() {
                        own.coming.pop_front();
                    }
                }
                other.writes.take().into_iter().for_each(Waker::wake);
            }
            Ok(arrived)
        })?;
        match arrived {
            Arrived::Bytes | Arrived::End => Poll::Ready(Ok(())),
            Arrived::Reset => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Arrived::Nothing => Poll::Pending,
        }
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_full = self.with(|_, own, other| {
            let is_full = other.bytes >= BUFFERED_BYTES && !own.is_reset && !other.is_gone;
            if is_full {
                own.writes = Some(cx.waker().clone());
            }
            Ok(is_full)
        })?;
        if is_full { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn try_write(&self, buffers: &[IoSlice<'_>], _: bool) -> io::Result<usize> {
        self.with(|side, own, other| {
            if other.is_gone && side.on.contains(&other.machine) {
                own.is_reset = true;
            }
            if own.is_reset {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            let room = BUFFERED_BYTES.saturating_sub(other.bytes);
            if room == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let most = side.rng.between(1, WRITTEN_BYTES).max(side.rng.between(1, WRITTEN_BYTES)) as usize;
            let mut taken = VecDeque::new();
            for buffer in buffers {
                let part = buffer.len().min(room.min(most) - taken.len());
                taken.extend(&buffer[..part]);
            }
            let count = taken.len();
            if count > 0 {
                let (first, second) = taken.as_slices();
                side.universe.sent(crc32c::crc32c_append(crc32c::crc32c(first), second));
                let arrives = side.arrival(own.machine, other);
                other.coming.push_back((arrives, taken));
                other.bytes += count;
                side.tell(other, arrives);
            }
            Ok(count)
        })
    }

    fn try_send_file(&self, _: BorrowedFd<'_>, _: u64, _: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.with(|side, own, other| {
            if other.ended.is_none() {
                let arrives = side.arrival(own.machine, other);
                other.ended = Some(arrives);
                side.tell(other, arrives);
            }
            Ok(())
        })
    }

    fn set_buffers(&self, _: BufferSizes) -> io::Result<()> {
        Ok(())
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.with(|_, own, _| Ok(own.address))
    }
}

impl Drop for SocketEnd {
    fn drop(&mut self) {
        // If the connection no longer exists, or the machine lost its power, nobody is told.
        let closed = self.with(|side, own, other| {
            if own.is_gone {
                return Ok(other.is_gone);
            }
            own.is_gone = true;
            if own.coming.is_empty() {
                let arrives = side.arrival(own.machine, other);
                other.ended.get_or_insert(arrives);
                side.tell(other, arrives);
            } else {
                // As in TCP, unread data is lost, and the other end must learn of that.
                other.is_reset = true;
                other.wake();
            }
            Ok(other.is_gone)
        });
        if closed.unwrap_or(false) {
            self.network.state.lock().connections.remove(&self.connection);
        }
    }
}
