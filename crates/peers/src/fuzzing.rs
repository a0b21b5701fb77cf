//! Entry point of the fuzz target `peer_frame`.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::frame::{self, Frame, FrameKind, HEADER_BYTES};
use super::types::RequestError;

/// Decodes bytes as a frame, encodes it again, and compares.
///
/// # Panics
/// If the result is not the same frame.
pub fn peer_frame(kind: u8, payload: Bytes) {
    let Ok((kind, frame)) = frame::decode(kind, payload) else { return };
    let Some(encoded) = encode(kind, &frame) else { return };
    let payload = encoded.slice(HEADER_BYTES..);
    let again = frame::decode(kind as u8, payload).expect("our own encoding decodes");
    assert_eq!(again, (kind, frame));
}

/// Encodes a frame. `None` if its bytes are produced elsewhere.
fn encode(kind: FrameKind, frame: &Frame) -> Option<Bytes> {
    let mut out = BytesMut::new();
    match frame {
        Frame::Raft(messages) => {
            let at = frame::begin(&mut out, kind);
            for (group, message) in messages {
                match kind {
                    FrameKind::Heartbeats => {
                        let heartbeat = message.heartbeat().expect("nothing else is in such a frame");
                        frame::put_heartbeat(&mut out, *group, &heartbeat);
                    }
                    _ => frame::put_message(&mut out, *group, message),
                }
            }
            frame::end(&mut out, at);
        }
        // A list that takes more than one frame cannot have arrived in one.
        Frame::Leading { complete, groups } => {
            return Some(frame::leading_frames(*complete, groups, 1 << 20).remove(0));
        }
        Frame::Request { id, kind: detail, body } => {
            out.put_slice(&frame::body_head(kind, *id, *detail, body));
            out.put_slice(body);
        }
        // The encoder truncates a reason, and the decoder replaces what is not text in it.
        Frame::Answer { outcome: Err(RequestError::Failed(_)), .. } => return None,
        Frame::Answer { id, outcome } => {
            let (detail, body) = frame::outcome_to_wire(outcome.clone());
            out.put_slice(&frame::body_head(kind, *id, detail, &body));
            out.put_slice(&body);
        }
        Frame::Cancel(number) | Frame::Ping(number) | Frame::Pong(number) | Frame::Beat(number) => {
            frame::put_number(&mut out, kind, *number);
        }
        Frame::Nats(..) => return None,
    }
    Some(out.freeze())
}
