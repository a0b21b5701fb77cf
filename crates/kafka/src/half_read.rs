//! A shared limit on the memory of small frames that have arrived in part.
//!
//! Small frames are read without reserving memory (`budget`), so that their senders never wait for others. A
//! frame that arrives at once is not counted. A frame that stops half-way is counted here. When such frames
//! take too much memory, the address that holds most of it loses its oldest frame, if that frame has waited
//! for a while: its connection is closed.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use tailrace_env::time::{Duration, Instant};

use parking_lot::Mutex;

/// Memory that partial small frames may take.
pub(crate) const HALF_READ_BYTES_MAX: usize = 32 << 20;

/// Time that every frame has for its rest to arrive.
const GRACE: Duration = Duration::from_millis(50);

/// All partial small frames. Nothing is changed under the lock before the assertions have passed.
#[derive(Debug, Default)]
pub struct HalfRead(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    bytes: usize,
    /// The highest value of `bytes` since [`HalfRead::take_most`] was last called.
    most: usize,
    next_number: u64,
    addresses: HashMap<IpAddr, Address>,
}

#[derive(Debug, Default)]
struct Address {
    bytes: usize,
    /// Entries by number, so the oldest is first.
    held: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    bytes: usize,
    since: Instant,
    given_up: Arc<AtomicBool>,
    waker: Waker,
}

/// One connection's partial frame, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    table: Arc<HalfRead>,
    address: IpAddr,
    number: u64,
    pub bytes: usize,
    given_up: Arc<AtomicBool>,
}

impl HalfRead {
    /// Counts `bytes` of a connection from this address. If the frame is evicted, the connection's task is
    /// woken.
    pub(crate) fn hold(self: &Arc<Self>, address: IpAddr, bytes: usize, now: Instant, waker: &Waker) -> Held {
        let given_up = Arc::new(AtomicBool::new(false));
        let entry = Entry { bytes, since: now, given_up: Arc::clone(&given_up), waker: waker.clone() };
        let mut table = self.0.lock();
        let number = table.next_number;
        table.next_number += 1;
        table.bytes += bytes;
        let of_address = table.addresses.entry(address).or_default();
        of_address.bytes += bytes;
        of_address.held.insert(number, entry);
        table.most = table.most.max(table.bytes);
        while table.bytes > HALF_READ_BYTES_MAX && table.give_up_one(now) {}
        Held { table: Arc::clone(self), address, number, bytes, given_up }
    }

    /// Bytes that are held.
    pub fn used(&self) -> usize {
        self.0.lock().bytes
    }

    /// Returns the most bytes that were held since the last call.
    pub fn take_most(&self) -> usize {
        let mut table = self.0.lock();
        let bytes = table.bytes;
        std::mem::replace(&mut table.most, bytes)
    }
}

impl Table {
    /// Evicts the oldest frame of the address that holds most memory. Reports whether it evicted one.
    fn give_up_one(&mut self, now: Instant) -> bool {
        let most = self.addresses.iter().max_by_key(|(_, address)| address.bytes);
        let Some((&address, of_address)) = most else { return false };
        let oldest = of_address.held.first_key_value();
        let stood_still = |entry: &Entry| now.duration_since(entry.since) >= GRACE;
        let Some((&number, _)) = oldest.filter(|(_, entry)| stood_still(entry)) else { return false };
        if let Some(entry) = self.remove(address, number) {
            entry.given_up.store(true, Ordering::Release);
            entry.waker.wake();
        }
        true
    }

    fn remove(&mut self, address: IpAddr, number: u64) -> Option<Entry> {
        let of_address = self.addresses.get_mut(&address)?;
        let bytes = of_address.held.get(&number)?.bytes;
        // A second panic during a panic would abort the process.
        assert!(
            (of_address.bytes >= bytes && self.bytes >= of_address.bytes) || std::thread::panicking(),
            "{bytes} bytes are released of {} that {address} holds, and {} that all addresses hold",
            of_address.bytes,
            self.bytes
        );
        let entry = of_address.held.remove(&number)?;
        of_address.bytes = of_address.bytes.saturating_sub(bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        if of_address.held.is_empty() {
            self.addresses.remove(&address);
        }
        Some(entry)
    }
}

impl Held {
    /// Reports whether the frame was evicted because others need the memory.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// The counted bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.table.0.lock().remove(self.address, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn the_oldest_of_the_address_that_holds_most_goes() {
        tailrace_runtime::install();
        let table = Arc::new(HalfRead::default());
        let began = Instant::now();
        let hold = |last, now| table.hold(address(last), MIB, now, Waker::noop());
        let honest = hold(1, began);
        let mut strangers: Vec<_> = (0..HALF_READ_BYTES_MAX / MIB).map(|_| hold(2, began)).collect();
        assert!(strangers.iter().all(|held| !held.is_given_up()), "their rest may come yet");
        let other = hold(3, began + GRACE);
        strangers.push(hold(2, began + GRACE));
        assert!(!honest.is_given_up() && !other.is_given_up());
        let gone: Vec<_> = strangers.iter().map(Held::is_given_up).collect();
        assert_eq!(gone.iter().filter(|gone| **gone).count(), 3);
        assert!(gone[..3].iter().all(|gone| *gone));
        assert_eq!(table.0.lock().bytes, HALF_READ_BYTES_MAX);
    }

    #[test]
    fn what_is_dropped_is_no_longer_counted() {
        tailrace_runtime::install();
        let table = Arc::new(HalfRead::default());
        for _ in 0..100 {
            let held = table.hold(address(1), MIB, Instant::now(), Waker::noop());
            assert!(!held.is_given_up() && held.bytes() == MIB);
        }
        assert!(table.0.lock().addresses.is_empty());
        assert_eq!(table.0.lock().bytes, 0);
    }

    #[test]
    #[should_panic(expected = "1048576 bytes are released of 5 that 10.0.0.1 holds")]
    fn no_more_is_let_go_than_is_held() {
        tailrace_runtime::install();
        let table = Arc::new(HalfRead::default());
        let _held = table.hold(address(1), MIB, Instant::now(), Waker::noop());
        for of_address in table.0.lock().addresses.values_mut() {
            of_address.bytes = 5;
        }
    }
}
