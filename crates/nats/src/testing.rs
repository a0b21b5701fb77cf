//! A front without a node, and clients without a socket, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_config::{BrokerConfig, DynamicConfigs};
use tailrace_subjects::{Dialect, Pattern};

use crate::auth::Auth;
use crate::client::{Client, TransportKind};
use crate::front::NatsFront;
use crate::outbuf::OutBuffer;
use crate::subscription::{ClientSubscription, Sid};

pub(crate) fn front() -> NatsFront {
    tailrace_runtime::install();
    let config = BrokerConfig::resolve(&BTreeMap::new(), &DynamicConfigs::default()).unwrap();
    let auth = Auth::load(&config).unwrap();
    NatsFront::new(&config, None, auth, std::sync::Arc::new(tailrace_env::workers::Workers::start().unwrap()))
}

/// A client with so many subscriptions to `subject`. It reads nothing.
pub(crate) fn subscriber(front: &NatsFront, subject: &[u8], queue: Option<&[u8]>, count: u64) -> Arc<Client> {
    let out = OutBuffer::new(front.limits().out, None);
    let client = Arc::new(Client::new(1, ([127, 0, 0, 1], 1).into(), TransportKind::Plain, out));
    let pattern = Pattern::parse(Dialect::Nats, subject, front.router().limits()).unwrap();
    for number in 0..count {
        let sid = Sid::new(number.to_string().as_bytes());
        let queue = queue.map(|name| front.router().queue_name(name));
        let subscription = ClientSubscription::new(&client, sid, number, queue, false);
        drop(front.router().subscribe(&pattern, subscription).unwrap());
    }
    client
}
