//! Sends what push consumers deliver. A task does that for a consumer while there is something in its box;
//! consumers that wait have none.
//!
//! The task waits for receivers that are behind, so a consumer whose client is slow fills its box, and then
//! delivers no more. That holds up neither the leader nor other consumers.

use std::sync::Arc;

use tailrace_env::time::{Duration, sleep};

use super::super::serve::led;
use super::beside::Beside;
use super::events::Event;
use super::items::Item;
use super::push::{Next, Push};
use super::reading::read;
use super::types::PulledItem;
use crate::node::Node;

/// Pause after a failure to read messages.
const AGAIN: Duration = Duration::from_millis(100);

/// Sends what is in the box of a push consumer until it is empty.
pub(super) async fn send(node: Arc<Node>, beside: Arc<Beside>, push: Arc<Push>) {
    while let Some(Next { items, was_crowded }) = push.next() {
        if was_crowded {
            beside.nudge(&push.names.consumer);
        }
        let left = send_some(&node, &beside, &push, items).await;
        if !left.is_empty() {
            push.give_back(left);
            beside.nudge(&push.names.consumer);
        }
    }
}

/// Sends advisories.
pub(super) async fn tell(beside: Arc<Beside>, events: Vec<Event>) {
    let Some(deliverer) = &beside.pushes.deliverer else { return };
    for Event { subject, body } in events {
        deliverer.tell(&subject, &body).await;
    }
}

/// Sends these. Returns the sequences of messages that nobody gets.
async fn send_some(node: &Arc<Node>, beside: &Beside, push: &Push, items: Vec<Item>) -> Vec<u64> {
    let wanted: Vec<u64> = items.iter().filter_map(Item::sequence).collect();
    let Some(deliverer) = &beside.pushes.deliverer else { return wanted };
    // Another node leads the stream, and has consumers of its own.
    let Some(led) = led(node, beside.topic).ok().filter(|_| beside.is_led()) else { return Vec::new() };
    match read(node, &led, &push.names, items).await {
        Ok(read) => {
            let sent = deliverer.deliver(&push.subject, &read).await;
            read.iter().skip(sent).filter_map(PulledItem::sequence).collect()
        }
        Err(_) => {
            sleep(AGAIN).await;
            wanted
        }
    }
}
