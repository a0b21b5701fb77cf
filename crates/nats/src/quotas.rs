//! Quotas of NATS clients: the user's publications count on `producer_byte_rate`, deliveries to it on
//! `consumer_byte_rate`, on the same buckets as what it produces and fetches by Kafka. The name in CONNECT is
//! the client id.
//!
//! NATS has no way to tell a client to wait, and a message that is on its way must not be lost. So the
//! connection of a user beyond a quota is not read for as long as Kafka would mute it; TCP then holds the
//! client up. What was read before is still carried out, and what is delivered to it continues. Deliveries
//! are neither held back, because a subscriber with many waiting bytes is cut off, nor do their publishers
//! wait, because then a user with a small quota could slow all others. A user who hears more than the quota
//! pays at the next publication, request or fetch, at either door.
//!
//! Publications are charged where they are read ([`Connection`](crate::connection)). Deliveries are charged
//! by one task for all clients, a few times a second, and only while there are quotas.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::{future::Future as _, pin::Pin};
use tailrace_env::time::{self, Duration, Instant, Sleep};

use tailrace_env::aside::Turn;

use crate::client::Client;
use crate::server::NatsServer;

/// Time between two charges for deliveries: a fraction of the second that a quota's sample takes.
const INTERVAL: Duration = Duration::from_millis(200);

/// The longest time for which a connection is not read, if its PING interval is not shorter. Clients close a
/// connection whose PINGs are not answered for several minutes.
const HOLD_MAX: Duration = Duration::from_secs(60);

/// The time for which a connection is not read.
#[derive(Debug, Default)]
pub(crate) struct Hold(Option<Sleep>);

impl Hold {
    /// Reports whether the connection must not be read now.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins, lengthens or ends the time. Returns the moment of its end if that has just come.
    pub(crate) fn poll(
        &mut self,
        client: &Client,
        interval: Duration,
        cx: &mut Context<'_>,
    ) -> Option<Instant> {
        let hold_ms = client.dues.take_hold_ms();
        if hold_ms > 0 {
            self.lengthen(Duration::from_millis(hold_ms.into()).min(HOLD_MAX).min(interval));
        }
        let sleep = self.0.as_mut()?;
        match Pin::new(sleep).poll(cx) {
            Poll::Pending => None,
            Poll::Ready(()) => {
                self.0 = None;
                Some(Instant::now())
            }
        }
    }

    fn lengthen(&mut self, time: Duration) {
        let until = Instant::now() + time;
        match &mut self.0 {
            Some(sleep) if sleep.deadline() >= until => {}
            Some(sleep) => sleep.reset(until),
            none => *none = Some(time::sleep_until(until)),
        }
    }
}

/// Charges a client for operations that publish, of so many bytes.
pub(crate) fn published(server: &NatsServer, client: &Client, bytes: u64) {
    if bytes == 0 || !server.node.has_quotas() {
        return;
    }
    let said = client.said();
    let name = said.as_ref().map_or("", |said| said.name.as_str());
    client.dues.hold(server.node.produced(&client.caller(), name, bytes));
}

/// Charges all clients for what was delivered to them, until the task is dropped.
pub async fn charge_deliveries(server: Arc<NatsServer>) {
    let mut changes = server.node.metadata_changes();
    loop {
        let (was_on, is_on) = (server.charging.0.load(Ordering::Relaxed), server.node.has_quotas());
        if is_on {
            let mut turn = Turn::begin();
            for client in server.front.clients() {
                turn.rest().await;
                if was_on {
                    delivered(&server, &client);
                } else {
                    // What came before there were quotas is not charged.
                    client.dues.charged_bytes.store(client.sent().1, Ordering::Relaxed);
                }
            }
        }
        server.charging.0.store(is_on, Ordering::Relaxed);
        if is_on {
            time::sleep(INTERVAL).await;
        } else if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Charges a client that leaves for what was delivered to it since the last time.
pub(crate) fn leaves(server: &NatsServer, client: &Client) {
    if server.charging.0.load(Ordering::Relaxed) {
        delivered(server, client);
    }
}

fn delivered(server: &NatsServer, client: &Client) {
    let sent = client.sent().1;
    let bytes = sent.saturating_sub(client.dues.charged_bytes.swap(sent, Ordering::Relaxed));
    if bytes == 0 {
        return;
    }
    let said = client.said();
    let name = said.as_ref().map_or("", |said| said.name.as_str());
    let hold_ms = server.node.delivered(&client.caller(), name, bytes);
    if hold_ms > 0 {
        client.dues.hold(hold_ms);
        // The connection looks at it when it is woken.
        client.out.signal(|_| {});
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::testing::{front, subscriber};

    #[tokio::test]
    async fn a_connection_is_held_for_the_longest_time_and_within_bounds() {
        let front = front();
        let client = subscriber(&front, b"a", None, 1);
        let (mut hold, mut cx) = (Hold::default(), Context::from_waker(Waker::noop()));
        let minute = Duration::from_secs(60);
        assert_eq!(hold.poll(&client, minute, &mut cx), None);
        assert!(!hold.is_on());
        // A time, and the interval of PINGs.
        for (asked_ms, interval, held_ms) in [(200, minute, 200), (u32::MAX, minute / 200, 300)] {
            client.dues.hold(asked_ms);
            client.dues.hold(asked_ms / 2);
            let began = Instant::now();
            assert_eq!(hold.poll(&client, interval, &mut cx), None);
            client.dues.hold(1);
            while hold.poll(&client, interval, &mut cx).is_none() {
                assert!(hold.is_on());
                time::sleep(Duration::from_millis(10)).await;
            }
            let held = began.elapsed();
            let expected = Duration::from_millis(held_ms);
            assert!(held >= expected && held < expected + Duration::from_secs(5), "{held:?}");
            assert!(!hold.is_on());
        }
        client.dues.hold(u32::MAX);
        let began = Instant::now();
        assert_eq!(hold.poll(&client, 2 * minute, &mut cx), None);
        let end = hold.0.as_ref().map(|sleep| sleep.deadline() - began);
        assert!(end.is_some_and(|end| end < HOLD_MAX + Duration::from_secs(5)), "{end:?}");
    }
}
