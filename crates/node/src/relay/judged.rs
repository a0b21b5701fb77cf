//! Sends messages to the leader of their stream until it has judged them.

use std::sync::Arc;
use tailrace_env::time::{self, Instant};
use tailrace_env::{select, task};

use bytes::Bytes;
use tailrace_peers::RequestKind;
use tailrace_types::{NodeId, RaftGroup};

use super::failure::NotStored;
use super::judge::judge_here;
use super::judge_wire::{JudgeAnswer, encode_request};
use super::queue::{Producer, Teller, Waiter};
use super::road::{PAUSES, epoch, fail, leader, moved};
use crate::node::Node;
use crate::streams::{PublishRequest, Published, Sender};

/// A request.
pub(super) struct Judged {
    pub(super) batches: Vec<Bytes>,
    pub(super) deadline: Instant,
    /// The producer as it is before the request.
    pub(super) producer: Producer,
    /// Those who wait for the batches, each with the number of its messages.
    pub(super) waiters: Vec<(usize, Waiter)>,
}

/// What is known of a request.
struct Outcome {
    stored: i32,
    published: Vec<Published>,
}

/// Has the messages judged, and tells those who wait.
pub(super) async fn relay(node: &Arc<Node>, group: RaftGroup, request: Judged) {
    let Judged { batches, deadline, producer, waiters } = request;
    let messages: usize = waiters.iter().map(|(count, _)| count).sum();
    let outcome = put(node, group, &batches, deadline, producer).await;
    let outcome = outcome.and_then(|outcome| {
        let is_whole = outcome.published.len() == messages && outcome.stored >= 0;
        is_whole.then_some(outcome).ok_or_else(|| NotStored::Unanswered("its answer is malformed".to_owned()))
    });
    match outcome {
        // Whatever becomes of the next request has another producer: this one's sequence is not known.
        Err(failure) => fail(waiters.into_iter().map(|(_, waiter)| waiter).collect(), &failure),
        Ok(Outcome { stored, published }) => {
            tell(waiters, published);
            let next_sequence = producer.next_sequence.saturating_add(stored);
            let next = Producer { next_sequence, next_request: producer.next_request + 1, ..producer };
            node.relay.set_producer(group, Some(next));
        }
    }
}

fn tell(waiters: Vec<(usize, Waiter)>, published: Vec<Published>) {
    let mut all = published.into_iter();
    for (count, waiter) in waiters {
        let own: Vec<_> = all.by_ref().take(count).collect();
        match waiter.teller {
            Teller::Each(told) => told(Ok(own)),
            // Those are not among them.
            Teller::Batch(told) => told(Err(NotStored::Unanswered("it was judged".to_owned()))),
        }
    }
}

/// Sends the request to the leader, whichever node that is, until there is a definite answer or the deadline
/// passes.
async fn put(
    here: &Arc<Node>,
    group: RaftGroup,
    batches: &[Bytes],
    deadline: Instant,
    producer: Producer,
) -> Result<Outcome, NotStored> {
    let mut retry = PAUSES.until(deadline);
    let (mut begun, mut last) = (0_u32, "no node leads the partition".to_owned());
    let answered = async {
        loop {
            if let Some(node) = leader(here, group) {
                begun += 1;
                let Producer { id, next_sequence: sequence, next_request: request } = producer;
                let epoch = epoch(here, group, node);
                let sender = Sender { producer: id, sequence, request, epoch };
                match put_to(here, node, group, &sender, batches, deadline).await {
                    JudgeAnswer::Judged { stored, published } => {
                        return Some(Ok(Outcome { stored, published }));
                    }
                    JudgeAnswer::Refused(reason) if begun == 1 => {
                        return Some(Err(NotStored::Refused(reason)));
                    }
                    // An earlier attempt may have stored some of it.
                    JudgeAnswer::Refused(reason) | JudgeAnswer::Unknown(reason) => {
                        return Some(Err(NotStored::Unanswered(reason)));
                    }
                    JudgeAnswer::Again(reason) => last = reason,
                }
                here.relay.retries.inc();
            }
            if !retry.pause().await {
                return None;
            }
        }
    };
    let answered = time::timeout_at(deadline, answered).await.ok().flatten();
    let given_up = if begun > 0 { NotStored::Unanswered(last) } else { NotStored::NoLeader(last) };
    answered.unwrap_or(Err(given_up))
}

/// Makes one attempt. Ends early if another node is known to lead.
async fn put_to(
    here: &Arc<Node>,
    node: NodeId,
    group: RaftGroup,
    sender: &Sender,
    batches: &[Bytes],
    deadline: Instant,
) -> JudgeAnswer {
    let again = |reason: &dyn std::fmt::Display| JudgeAnswer::Again(reason.to_string());
    if node == here.id() {
        let request = PublishRequest { batches: batches.to_vec(), sender: Some(*sender) };
        let judged = task::spawn(judge_here(Arc::clone(here), group, request)).await;
        return judged.unwrap_or_else(|error| again(&error));
    }
    let Some(peers) = here.links.peers() else { return again(&"the node is standalone") };
    let body = encode_request(group, sender, batches);
    let left = deadline.duration_since(Instant::now());
    select! {
        answer = peers.request(node, RequestKind::Judge, body, left) => match answer {
            Ok(answer) => {
                JudgeAnswer::decode(answer).unwrap_or_else(|| again(&"the leader's answer is malformed"))
            }
            Err(error) => again(&error),
        },
        () = moved(here, group, node) => again(&"the partition has a new leader"),
    }
}
