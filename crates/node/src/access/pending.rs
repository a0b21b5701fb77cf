//! Connections whose clients have not logged in yet.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tailrace_config::BrokerConfig;
use tailrace_identity::{Admitted, NotAdmitted, PendingLogins};
use tailrace_types::usize_of;

/// The place of a connection whose client has not logged in yet. Dropping it frees the place.
#[derive(Debug)]
pub struct PendingLogin {
    all: Arc<Mutex<PendingLogins>>,
    place: Option<Admitted>,
}

impl PendingLogin {
    fn take(all: &Arc<Mutex<PendingLogins>>, address: IpAddr) -> Result<Self, NotAdmitted> {
        let place = all.lock().admit(address)?;
        Ok(Self { all: Arc::clone(all), place: Some(place) })
    }
}

impl Drop for PendingLogin {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.all.lock().leave(place);
        }
    }
}

/// Connections whose clients have not logged in yet. Those of one door take no places at the other.
#[derive(Debug)]
pub(super) struct Doors {
    kafka: Arc<Mutex<PendingLogins>>,
    nats: Arc<Mutex<PendingLogins>>,
}

impl Doors {
    pub(super) fn new(config: &BrokerConfig) -> Self {
        let door = |per_address: u32, all: u32| {
            Arc::new(Mutex::new(PendingLogins::new(usize_of(per_address.into()), usize_of(all.into()))))
        };
        Self {
            kafka: door(config.tailrace_kafka_logins_max_per_ip, config.tailrace_kafka_logins_max),
            nats: door(config.tailrace_nats_logins_max_per_ip, config.tailrace_nats_logins_max),
        }
    }

    pub(super) fn kafka(&self, address: IpAddr) -> Result<PendingLogin, NotAdmitted> {
        PendingLogin::take(&self.kafka, address)
    }

    pub(super) fn nats(&self, address: IpAddr) -> Result<PendingLogin, NotAdmitted> {
        PendingLogin::take(&self.nats, address)
    }
}
