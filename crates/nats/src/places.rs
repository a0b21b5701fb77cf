//! Places for connections: how many there may be, and how many from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The places of one server.
#[derive(Debug, Default)]
pub(crate) struct Places(Arc<Mutex<Taken>>);

impl Places {
    /// A place for one more connection from an address that may have `per_address`, where `all` connections are allowed.
    ///
    /// # Errors
    /// The setting that allows no more.
    pub(crate) fn take(
        &self,
        all: usize,
        address: IpAddr,
        per_address: u32,
    ) -> Result<ConnectionPlace, &'static str> {
        let mut taken = lock(&self.0);
        if taken.count >= all {
            return Err("tailrace.nats.max.connections");
        }
        let of_address = taken.by_address.get(&address).copied().unwrap_or(0);
        if of_address >= per_address {
            return Err("max.connections.per.ip");
        }
        taken.count += 1;
        taken.by_address.insert(address, of_address + 1);
        drop(taken);
        Ok(ConnectionPlace { places: Arc::clone(&self.0), address })
    }
}

/// How many places are taken.
#[derive(Debug, Default)]
struct Taken {
    count: usize,
    by_address: HashMap<IpAddr, u32>,
}

/// A connection's place among the allowed ones; given back when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    places: Arc<Mutex<Taken>>,
    address: IpAddr,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut taken = lock(&self.places);
        let (all, of_address) = (taken.count, taken.by_address.get(&self.address).copied());
        let left = of_address.and_then(|count| count.checked_sub(1)).filter(|_| all > 0);
        match left {
            Some(0) => drop(taken.by_address.remove(&self.address)),
            Some(left) => drop(taken.by_address.insert(self.address, left)),
            // A second panic would end the process.
            None => assert!(
                std::thread::panicking(),
                "a connection of {} goes, of {of_address:?} there and {all} in all",
                self.address
            ),
        }
        taken.count = all.saturating_sub(1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a connection of 10.0.0.1 goes, of None there and 1 in all")]
    fn no_more_connections_go_than_there_are() {
        let places = Places::default();
        let _place = places.take(10, IpAddr::from([10, 0, 0, 1]), 10).unwrap();
        lock(&places.0).by_address.clear();
    }
}
