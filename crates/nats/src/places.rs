//! Places for connections, limited in total and per address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tailrace_node::access::PendingLogin;

/// The places of one server.
#[derive(Debug, Default)]
pub(crate) struct Places(Arc<Mutex<Taken>>);

impl Places {
    /// Takes a place for a connection from an address that may have `per_address`, if `all` connections are
    /// allowed in total.
    ///
    /// # Errors
    /// The name of the setting whose limit is reached.
    pub(crate) fn take(
        &self,
        all: usize,
        address: IpAddr,
        per_address: u32,
    ) -> Result<ConnectionPlace, &'static str> {
        let mut taken = self.0.lock();
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
        Ok(ConnectionPlace { places: Arc::clone(&self.0), address, pending: None })
    }
}

/// Number of places that are taken.
#[derive(Debug, Default)]
struct Taken {
    count: usize,
    by_address: HashMap<IpAddr, u32>,
}

/// A connection's place among the allowed ones, released when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    places: Arc<Mutex<Taken>>,
    address: IpAddr,
    /// The one among connections whose clients have not logged in yet.
    pending: Option<PendingLogin>,
}

impl ConnectionPlace {
    /// Counts it among those whose clients have not logged in yet, too.
    pub(crate) fn until_login(mut self, pending: PendingLogin) -> Self {
        self.pending = Some(pending);
        self
    }

    /// The client has logged in.
    pub(crate) fn has_logged_in(&mut self) {
        self.pending = None;
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        let (all, of_address) = (taken.count, taken.by_address.get(&self.address).copied());
        let left = of_address.and_then(|count| count.checked_sub(1)).filter(|_| all > 0);
        match left {
            Some(0) => drop(taken.by_address.remove(&self.address)),
            Some(left) => drop(taken.by_address.insert(self.address, left)),
            // A second panic would abort the process.
            None => assert!(
                std::thread::panicking(),
                "a connection of {} ends, of {of_address:?} from there and {all} in all",
                self.address
            ),
        }
        taken.count = all.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a connection of 10.0.0.1 ends, of None from there and 1 in all")]
    fn no_more_connections_go_than_there_are() {
        let places = Places::default();
        let _place = places.take(10, IpAddr::from([10, 0, 0, 1]), 10).unwrap();
        places.0.lock().by_address.clear();
    }
}
