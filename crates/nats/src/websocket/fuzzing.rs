//! Entry point of the fuzz target `websocket`.

use hyper::Request;

use super::WebSocketLimits;
use super::decoder::{Decoder, Event};
use super::handshake::{Policy, Upgrade};

const LIMITS: WebSocketLimits = WebSocketLimits { frame_bytes_max: 1 << 16, inflated_bytes_max: 1 << 16 };

/// Decodes frames that arrive whole, and in two pieces, and compares.
///
/// # Panics
/// If the results are not the same.
pub fn websocket_frames(input: &[u8], cut: usize, compression: bool) {
    let cut = cut.min(input.len());
    let whole = decode(&[input], compression);
    let pieces = decode(&[&input[..cut], &input[cut..]], compression);
    assert_eq!(whole.is_some(), pieces.is_some(), "cut at {cut}");
    if let (Some(whole), Some(pieces)) = (whole, pieces) {
        assert_eq!(whole, pieces, "cut at {cut}");
    }
}

/// Returns the bytes of the client and its requests. `None` if it violates the protocol.
fn decode(pieces: &[&[u8]], compression: bool) -> Option<(Vec<u8>, Vec<Event>)> {
    let mut decoder = Decoder::new(LIMITS, compression);
    let (mut buffer, mut output, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let mut room = [0; 4_096];
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let done = decoder.advance(&mut buffer, &mut room).ok()?;
            assert!(done.taken <= buffer.len() && done.given <= room.len());
            buffer.drain(..done.taken);
            output.extend_from_slice(&room[..done.given]);
            let is_over = (done.taken, done.given) == (0, 0) && done.event.is_none();
            events.extend(done.event);
            if is_over {
                break;
            }
        }
    }
    Some((output, events))
}

/// Decides about a request with these headers, and makes the answer.
pub fn websocket_upgrade(headers: &[(&[u8], &[u8])], secure: bool) {
    let mut request = Request::builder().uri("/");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let Ok(request) = request.body(()) else { return };
    let origins = vec!["https://app.example".to_owned()];
    for origins in [Vec::new(), origins] {
        let policy = Policy { origins, own_host: "nats.example".to_owned(), secure, compression: true };
        if let Ok(upgrade) = Upgrade::of(&request, &policy) {
            assert!(upgrade.headers().contains_key("sec-websocket-accept"));
        }
    }
}
