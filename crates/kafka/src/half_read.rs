//! The beginnings of small frames that wait for the rest: what they may take together.
//!
//! Small frames are read without asking (`budget`): nobody who sends one is to wait for others. What comes in one go is used at once. A
//! frame that stops half-way is counted here. When there is too much of that, the address that holds most of it loses its oldest, if
//! that has stood still for a while: its connection is closed.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use tailrace_env::time::{Duration, Instant};

/// Memory that half-read small frames may take.
pub(crate) const HALF_READ_BYTES_MAX: usize = 32 << 20;

/// Time that a frame has in any case for its rest to come.
const GRACE: Duration = Duration::from_millis(50);

/// All of them.
#[derive(Debug, Default)]
pub struct HalfRead(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    bytes: usize,
    /// The most since somebody asked.
    most: usize,
    next_number: u64,
    addresses: HashMap<IpAddr, Address>,
}

#[derive(Debug, Default)]
struct Address {
    bytes: usize,
    /// By number: the oldest is first.
    held: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    bytes: usize,
    since: Instant,
    given_up: Arc<AtomicBool>,
    waker: Waker,
}

/// One connection's half-read frame; counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    table: Arc<HalfRead>,
    address: IpAddr,
    number: u64,
    pub bytes: usize,
    given_up: Arc<AtomicBool>,
}

impl HalfRead {
    /// Counts `bytes` of a connection from this address. Its task is woken if it has to give them up.
    pub(crate) fn hold(self: &Arc<Self>, address: IpAddr, bytes: usize, now: Instant, waker: &Waker) -> Held {
        let given_up = Arc::new(AtomicBool::new(false));
        let entry = Entry { bytes, since: now, given_up: Arc::clone(&given_up), waker: waker.clone() };
        let mut table = self.lock();
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
        self.lock().bytes
    }

    /// The most bytes that were held since this was asked last.
    pub fn take_most(&self) -> usize {
        let mut table = self.lock();
        let bytes = table.bytes;
        std::mem::replace(&mut table.most, bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // What is asserted under this lock is so before anything is changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The oldest of the address that holds most.
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
        // A panic while another one is under way would end the process.
        assert!(
            (of_address.bytes >= bytes && self.bytes >= of_address.bytes) || std::thread::panicking(),
            "{bytes} bytes are let go of {} that {address} holds, and {} that all hold",
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
    /// True if others need the memory more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// What is counted.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.table.lock().remove(self.address, self.number);
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
        assert_eq!(table.lock().bytes, HALF_READ_BYTES_MAX);
    }

    #[test]
    fn what_is_dropped_is_no_longer_counted() {
        tailrace_runtime::install();
        let table = Arc::new(HalfRead::default());
        for _ in 0..100 {
            let held = table.hold(address(1), MIB, Instant::now(), Waker::noop());
            assert!(!held.is_given_up() && held.bytes() == MIB);
        }
        assert!(table.lock().addresses.is_empty());
        assert_eq!(table.lock().bytes, 0);
    }

    #[test]
    #[should_panic(expected = "1048576 bytes are let go of 5 that 10.0.0.1 holds")]
    fn no_more_is_let_go_than_is_held() {
        tailrace_runtime::install();
        let table = Arc::new(HalfRead::default());
        let _held = table.hold(address(1), MIB, Instant::now(), Waker::noop());
        for of_address in table.lock().addresses.values_mut() {
            of_address.bytes = 5;
        }
    }
}
