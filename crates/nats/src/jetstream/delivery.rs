//! A stored message on its way to a client.

use tailrace_nats_wire::Message;
use tailrace_node::streams::PulledMessage;

use super::header::added;

/// The header block, where something is added to the message's own.
pub(super) fn block(pulled: &PulledMessage) -> Option<Vec<u8>> {
    let size = pulled.left_out.map(|bytes| bytes.to_string());
    let more: Vec<(&str, &[u8])> = [
        size.as_ref().map(|size| ("Nats-Msg-Size", size.as_bytes())),
        pulled.pin.as_ref().map(|pin| ("Nats-Pin-Id", pin.as_bytes())),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!more.is_empty()).then(|| added(&pulled.message.headers, &more))
}

/// The message as the client gets it, with what [`block`] has returned.
pub(super) fn message<'a>(pulled: &'a PulledMessage, block: Option<&'a [u8]>) -> Message<'a> {
    let stored = &pulled.message;
    let own = (!stored.headers.is_empty()).then_some(&*stored.headers);
    Message {
        subject: &stored.subject,
        reply: Some(pulled.reply.as_bytes()),
        headers: block.or(own),
        payload: &stored.payload,
    }
}
