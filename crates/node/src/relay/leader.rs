//! Sends waiting batches to the leader of their partition until they are committed or refused.

use std::sync::Arc;
use tailrace_env::time::Instant;
use tailrace_env::{select, task, time};

use bytes::Bytes;
use tailrace_records::BatchBuilder;
use tailrace_types::{NodeId, Offset, ProducerEpoch, RaftGroup};

use super::build::{Building, build};
use super::failure::NotStored;
use super::judged::{self, Judged};
use super::queue::{Item, Producer, Teller, Waiter};
use super::road::{PAUSES, fail, leader, moved};
use super::serve::store_here;
use super::wire::{self, StoreAnswer};
use crate::caller::Caller;
use crate::node::Node;
use tailrace_env::task::stopped;
use tailrace_env::workers::Panicked;
use tailrace_peers::RequestKind;

/// Relays what waits for one partition, until nothing is left.
pub(super) async fn run(node: Arc<Node>, group: RaftGroup) {
    let mut stopping = node.stopping.subscribe();
    while let Some((items, producer)) = node.relay.take(group) {
        let under_way = node.relay.under_way(group, items.iter().map(|item| item.waiter.bytes).sum());
        select! {
            () = relay(&node, group, items, producer) => {}
            // The waiting clients are about to be closed.
            () = stopped(&mut stopping) => node.relay.set_producer(group, None),
        }
        under_way.end();
    }
}

/// Batches ready to be sent.
struct Prepared {
    batches: Vec<Bytes>,
    deadline: Instant,
}

async fn relay(node: &Arc<Node>, group: RaftGroup, items: Vec<Item>, producer: Option<Producer>) {
    let deadline = items.iter().map(|item| item.deadline).min().unwrap_or_else(Instant::now);
    let is_judged = items.first().is_some_and(Item::is_judged);
    let (builders, waiters): (Vec<_>, Vec<_>) =
        items.into_iter().map(|item| (item.builder, item.waiter)).unzip();
    // Until this is done, nothing is known of the producer: what is given up may be stored or not.
    node.relay.set_producer(group, None);
    let producer = match producer {
        Some(producer) => producer,
        None => match new_producer(node, deadline).await {
            Ok(producer) => producer,
            Err(failure) => return fail(waiters, &failure),
        },
    };
    let before = producer;
    let counts: Vec<usize> = builders.iter().map(BatchBuilder::len).collect();
    let (batches, producer) = match build_all(node, builders, producer).await {
        Ok(built) => built,
        Err(error) => {
            tracing::error!(%group, %error, "building batches panicked");
            return fail(waiters, &NotStored::Panicked);
        }
    };
    if is_judged {
        let counts = counts.into_iter().zip(waiters).collect();
        return judged::relay(node, group, Judged { batches, deadline, producer: before, waiters: counts })
            .await;
    }
    let prepared = Prepared { batches, deadline };
    let Outcome { stored, failure } = put(node, group, &prepared).await;
    let mut told = waiters;
    let left = told.split_off(stored.len().min(told.len()));
    tell(told, &stored);
    match failure {
        None if left.is_empty() => node.relay.set_producer(group, Some(producer)),
        None => fail(left, &NotStored::Unanswered("the leader's answer is malformed".to_owned())),
        Some(failure) => fail(left, &failure),
    }
}

async fn new_producer(node: &Arc<Node>, deadline: Instant) -> Result<Producer, NotStored> {
    let mut retry = PAUSES.until(deadline);
    loop {
        let work = Arc::clone(node);
        // Spawned, so that a reserved block of ids is recorded even if this future is dropped.
        let id = task::spawn(async move {
            work.controller.next_producer_id(Caller::internal(), &work.producer_ids, work.now()).await
        });
        let reason = match time::timeout_at(deadline, id).await {
            Ok(Ok(Ok(id))) => return Ok(Producer { id, next_sequence: 0, next_request: 1 }),
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the controller does not answer".to_owned(),
        };
        if !retry.pause().await {
            return Err(NotStored::NoLeader(reason));
        }
    }
}

/// Builds the batches of a producer, and returns the producer with its next sequence.
async fn build_all(
    node: &Node,
    builders: Vec<BatchBuilder>,
    producer: Producer,
) -> Result<(Vec<Bytes>, Producer), Panicked> {
    let work = move |builders: Vec<BatchBuilder>| {
        let mut next = producer;
        let batches = builders.into_iter().map(|builder| {
            let first = next.next_sequence;
            next.next_sequence += i32::try_from(builder.len()).expect("a batch has fewer than 2^31 records");
            builder.of_producer(next.id, ProducerEpoch(0), first).build()
        });
        (batches.collect(), next)
    };
    match build(&node.workers, builders, work) {
        Building::Done(built) => Ok(built),
        Building::OnWorker(worker) => worker.await,
    }
}

/// What is known about the batches of a request.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Offsets of the first batches, which are stored.
    stored: Vec<Offset>,
    /// Why the others are not stored.
    failure: Option<NotStored>,
}

/// The attempts for a request so far.
struct Attempts {
    /// How many leaders were asked. The last one may not have answered yet.
    begun: u32,
    /// Why there is no definite answer.
    reason: String,
}

impl Attempts {
    fn none() -> Self {
        Self { begun: 0, reason: "no node leads the partition".to_owned() }
    }

    fn begin(&mut self) {
        self.begun += 1;
    }

    /// Takes the answer to the last attempt. `None` if the request has to be retried.
    fn ended(&mut self, answer: StoreAnswer) -> Option<Outcome> {
        let (stored, failure) = match answer {
            StoreAnswer::Again(reason) => {
                self.reason = reason;
                return None;
            }
            StoreAnswer::Stored(stored) => (stored, None),
            StoreAnswer::Refused { stored, reason } if self.begun == 1 => {
                (stored, Some(NotStored::Refused(reason)))
            }
            // An earlier attempt may have stored the others.
            StoreAnswer::Refused { stored, reason } => {
                (stored, Some(NotStored::Unanswered(format!("it was retried, and refused: {reason}"))))
            }
        };
        Some(Outcome { stored, failure })
    }

    /// Returns the outcome once the deadline has passed.
    fn given_up(self) -> Outcome {
        let failure = if self.begun > 0 {
            NotStored::Unanswered(self.reason)
        } else {
            NotStored::NoLeader(self.reason)
        };
        Outcome { stored: Vec::new(), failure: Some(failure) }
    }
}

/// Sends the request to the leader, whichever node that is, until there is a definite answer or the deadline
/// passes.
async fn put(here: &Arc<Node>, group: RaftGroup, prepared: &Prepared) -> Outcome {
    let mut retry = PAUSES.until(prepared.deadline);
    let mut attempts = Attempts::none();
    let answered = async {
        loop {
            if let Some(node) = leader(here, group) {
                attempts.begin();
                let answer = put_to(here, node, group, prepared).await;
                if let Some(outcome) = attempts.ended(answer) {
                    return Some(outcome);
                }
                here.relay.retries.inc();
            }
            if !retry.pause().await {
                return None;
            }
        }
    };
    let answered = time::timeout_at(prepared.deadline, answered).await;
    answered.ok().flatten().unwrap_or_else(|| attempts.given_up())
}

/// Makes one attempt. Ends early if another node is known to lead.
async fn put_to(here: &Arc<Node>, node: NodeId, group: RaftGroup, prepared: &Prepared) -> StoreAnswer {
    let again = |reason: &dyn std::fmt::Display| StoreAnswer::Again(reason.to_string());
    if node == here.id() {
        let (caller, batches) = (Caller::internal().clone(), prepared.batches.clone());
        let stored = task::spawn(store_here(Arc::clone(here), caller, group, batches)).await;
        return stored.unwrap_or_else(|error| again(&error));
    }
    let Some(peers) = here.links.peers() else { return again(&"the node is standalone") };
    let body = wire::encode_request(group, &prepared.batches);
    let left = prepared.deadline.duration_since(Instant::now());
    select! {
        answer = peers.request(node, RequestKind::Append, body, left) => match answer {
            Ok(answer) => StoreAnswer::decode(answer).unwrap_or_else(|| again(&"the leader's answer is malformed")),
            Err(error) => again(&error),
        },
        () = moved(here, group, node) => again(&"the partition has a new leader"),
    }
}

fn tell(waiters: Vec<Waiter>, stored: &[Offset]) {
    for (waiter, first) in waiters.into_iter().zip(stored) {
        match waiter.teller {
            Teller::Batch(told) => told(Ok(*first)),
            Teller::Each(told) => told(Err(NotStored::Unanswered("it was not judged".to_owned()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(answers: &[StoreAnswer]) -> Result<Outcome, Attempts> {
        let mut attempts = Attempts::none();
        for answer in answers {
            attempts.begin();
            if let Some(outcome) = attempts.ended(answer.clone()) {
                return Ok(outcome);
            }
        }
        Err(attempts)
    }

    #[test]
    fn what_is_refused_after_an_attempt_without_an_answer_may_be_stored() {
        let again = || StoreAnswer::Again("the link broke".to_owned());
        let refused = StoreAnswer::Refused { stored: vec![Offset(3)], reason: "the disk is full".to_owned() };
        let Ok(outcome) = asked(std::slice::from_ref(&refused)) else { panic!("a refusal is for certain") };
        let failure = Some(NotStored::Refused("the disk is full".to_owned()));
        assert_eq!(outcome, Outcome { stored: vec![Offset(3)], failure });
        for answers in [vec![again(), refused.clone()], vec![again(), again(), refused.clone()]] {
            let Ok(outcome) = asked(&answers) else { panic!("the last word is for certain") };
            assert_eq!(outcome.stored, [Offset(3)]);
            assert!(matches!(outcome.failure, Some(NotStored::Unanswered(_))), "{outcome:?}");
        }
    }

    #[test]
    fn who_was_asked_and_did_not_answer_may_have_stored_it() {
        let again = || StoreAnswer::Again("the link broke".to_owned());
        let nobody = Attempts::none().given_up();
        assert!(matches!(nobody.failure, Some(NotStored::NoLeader(_))), "{nobody:?}");
        let mut under_way = Attempts::none();
        under_way.begin();
        let Err(answered) = asked(&[again(), again()]) else { panic!("nothing is for certain") };
        for attempts in [under_way, answered] {
            let outcome = attempts.given_up();
            assert_eq!(outcome.stored, []);
            assert!(matches!(outcome.failure, Some(NotStored::Unanswered(_))), "{outcome:?}");
        }
    }
}
