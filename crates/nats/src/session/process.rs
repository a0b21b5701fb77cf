//! Executes what a client has sent, operation by operation.

use std::sync::atomic::Ordering;

use tailrace_env::aside::TURN;
use tailrace_env::time::Instant;
use tailrace_nats_wire::{ClientOp, Step};

use super::{BYTES_AT_ONCE, Next, OPERATIONS_AT_ONCE, Session, WORK_AT_ONCE};
use crate::close::CloseReason;
use crate::front::NatsFront;

impl Session {
    /// Executes the complete operations of `input`, until the turn that started at `began` is over. Returns
    /// the number of bytes used.
    pub(crate) fn process(&mut self, front: &NatsFront, input: &[u8], began: Instant) -> (usize, Next) {
        self.turn_subjects.begin();
        let mut used = 0;
        let (mut operations, mut used_before, mut work_before) = (0, 0, self.burst.work());
        let next = loop {
            if self.unauthenticated && begins_without_connect(&input[used..]) && !front.auth().has_guest() {
                // The rest of the operation is not waited for.
                break self.denied_without_connect(front);
            }
            match self.parser.next(&input[used..]) {
                Ok(Step::More(bytes)) => break Next::Read(bytes),
                Ok(Step::Done(op, bytes)) => {
                    let published = if matches!(op, ClientOp::Publish(_)) { bytes as u64 } else { 0 };
                    if let Some(next) = self.carry_out(front, op, began) {
                        if !matches!(next, Next::Again) {
                            used += bytes;
                            self.published_bytes += published;
                        }
                        break next;
                    }
                    used += bytes;
                    self.published_bytes += published;
                    operations += 1;
                    let work = self.burst.work();
                    if operations >= OPERATIONS_AT_ONCE
                        || used - used_before >= BYTES_AT_ONCE
                        || work - work_before >= WORK_AT_ONCE
                    {
                        if began.elapsed() >= TURN && used < input.len() {
                            break Next::Rest;
                        }
                        (operations, used_before, work_before) = (0, used, work);
                    }
                }
                Err(error) => break self.refuse(&error),
            }
        };
        self.count(front);
        (used, next)
    }

    /// Takes the number of bytes of operations that publish, since the last call.
    pub(crate) fn take_published_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.published_bytes)
    }

    fn count(&mut self, front: &NatsFront) {
        let (messages, bytes) = (std::mem::take(&mut self.messages_in), std::mem::take(&mut self.bytes_in));
        if messages > 0 {
            front.metrics().messages_in.inc_by(messages);
            front.metrics().bytes_in.inc_by(bytes);
            self.client.counts.messages_in.fetch_add(messages, Ordering::Relaxed);
            self.client.counts.bytes_in.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    #[inline]
    fn carry_out(&mut self, front: &NatsFront, op: ClientOp<'_>, began: Instant) -> Option<Next> {
        if self.unauthenticated && !matches!(op, ClientOp::Connect(_) | ClientOp::Ignored) {
            match front.auth().guest(&self.asker) {
                Some(permissions) => {
                    if let Err(reason) = self.become_user(front, permissions) {
                        return Some(Next::Close(reason));
                    }
                }
                None => {
                    return Some(self.denied_without_connect(front));
                }
            }
        }
        match op {
            ClientOp::Publish(message) if message.headers.is_some() && front.accounts().are_linked() => {
                return self.publish_honestly(front, &message, began + TURN);
            }
            ClientOp::Publish(message) => return self.publish(front, &message, began + TURN),
            ClientOp::Connect(json) => return self.connect(front, json),
            ClientOp::Subscribe { subject, queue, sid } => self.subscribe(front, subject, queue, sid),
            ClientOp::Unsubscribe { sid, max } => self.unsubscribe(front, sid, max),
            // A client that gets PONG assumes that everything before it was processed, including captured
            // messages.
            ClientOp::Ping if !self.capture.is_empty() => return Some(Next::Pong),
            ClientOp::Ping => self.send_pong(front),
            ClientOp::Pong => self.pong(),
            ClientOp::Ignored => {}
            ClientOp::Complaint(text) => {
                tracing::debug!(client = self.client.id, text = %text.escape_ascii(), "the client reported an error");
                return Some(Next::Close(CloseReason::Complaint));
            }
        }
        None
    }
}

/// Reports whether the input does not start with CONNECT. Like nats-server, checks only the first byte.
fn begins_without_connect(input: &[u8]) -> bool {
    input.first().is_some_and(|byte| !matches!(byte, b'C' | b'c'))
}
