//! Reads the messages that were taken out of a box.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tailrace_jetstream::consumer::{Delivery, Names};
use tailrace_types::usize_of;

use super::super::failure::StreamFailure;
use super::super::reading::Reading;
use super::super::serve::{Led, NotServed, blocking};
use super::super::types::StoredMessage;
use super::items::Item;
use super::types::{PulledItem, PulledMessage};
use crate::node::Node;

/// Reads the messages of these items. One that is gone by now is left out: its consumer finds out when it
/// would be delivered again.
pub(super) async fn read(
    node: &Arc<Node>,
    led: &Led,
    names: &Names,
    items: Vec<Item>,
) -> Result<Vec<PulledItem>, NotServed> {
    let mut wanted: Vec<u64> = items.iter().filter_map(Item::sequence).collect();
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.is_empty() {
        return Ok(items.into_iter().filter_map(|item| shown(item, &HashMap::new(), names)).collect());
    }
    let translator = node.streams.translator.clone().ok_or(StreamFailure::NoStream)?;
    let decompressed_bytes_max = usize_of(node.config().tailrace_decompressed_bytes_max);
    let (led, names) = (led.again(), names.clone());
    let work = move || {
        let (handle, topic) = (&*led.live.handle, &*led.topic);
        let reading = Reading { handle, topic, translator: &*translator, decompressed_bytes_max };
        let found = reading.messages(&wanted)?;
        let found: HashMap<u64, StoredMessage> =
            found.into_iter().map(|message| (message.sequence, message)).collect();
        Ok(items.into_iter().filter_map(|item| shown(item, &found, &names)).collect())
    };
    Ok(blocking(work).await?)
}

fn shown(item: Item, found: &HashMap<u64, StoredMessage>, names: &Names) -> Option<PulledItem> {
    match item {
        Item::Status(status) => {
            let reply = status.reply().map(ToString::to_string);
            Some(PulledItem::Status { block: status.block(), reply })
        }
        Item::Message(delivery, _) => {
            let message = found.get(&delivery.stream_seq)?.clone();
            Some(PulledItem::Message(Box::new(delivered(&delivery, message, names))))
        }
    }
}

fn delivered(delivery: &Delivery, mut message: StoredMessage, names: &Names) -> PulledMessage {
    let mut reply = Vec::new();
    names.write_reply(delivery, &mut reply);
    let left_out = delivery.headers_only.then(|| message.payload.len() as u64);
    if left_out.is_some() {
        message.payload = Bytes::new();
    }
    PulledMessage {
        message,
        reply: String::from_utf8_lossy(&reply).into_owned(),
        left_out,
        pin: delivery.pin.as_ref().map(ToString::to_string),
    }
}
