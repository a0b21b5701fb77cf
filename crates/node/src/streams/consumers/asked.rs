//! Answers questions about the consumers of a stream that this node leads.

use std::sync::Arc;
use tailrace_env::time::Instant;

use tailrace_jetstream::api::bodies::PauseRequest;
use tailrace_jetstream::consumer::{Ack, AckSubject, Names, Outbox, Send, Sequences};
use tailrace_jetstream::error::ErrorKind;
use tailrace_jetstream::limits::{LIST_PAGE, NAMES_PAGE};

use super::super::failure::StreamFailure;
use super::super::serve::{Led, NotServed, answer, led};
use super::beside::{Beside, State};
use super::create::{Bound, create};
use super::keep::consumers;
use super::member::{Member, Turn};
use super::pulls::{Pull, Taken};
use super::reading::read;
use super::types::{AckAsk, Acked, ConsumerAnswer, ConsumerAsk, Pulled};
use crate::node::Node;

/// Answers a question.
pub(in super::super) async fn answer_consumers(
    node: &Arc<Node>,
    topic: [u8; 16],
    what: ConsumerAsk,
    deadline: Instant,
) -> Result<ConsumerAnswer, NotServed> {
    let led = led(node, topic)?;
    let is_create = matches!(what, ConsumerAsk::Create(_));
    let found = consumers(node, &led, is_create, deadline).await?;
    let Some(beside) = found else { return nothing(&what) };
    match what {
        ConsumerAsk::Create(request) => {
            let bound = Bound::of(&node.config());
            saved_turn(node, led, &beside, deadline, move |state, turn| {
                let facts = create(state, turn, &request, &bound)?;
                let is_unkept = state.members.get(&*facts.name).is_some_and(Member::is_unkept);
                // One that is durable no more is deleted from the log.
                let waits = is_unkept || state.unsaved.is_deleting(&facts.name);
                let round = waits.then(|| state.unsaved.next_round());
                Ok((ConsumerAnswer::Facts(Box::new(facts)), round))
            })
            .await
        }
        ConsumerAsk::Delete(name) => {
            let was_there = saved_turn(node, led, &beside, deadline, move |state, turn| {
                let was_there = state.remove(turn, &name);
                // Who asks again is not told that it is gone before that is durable.
                let waits = state.unsaved.may_be_deleting(&name);
                Ok((was_there, waits.then(|| state.unsaved.next_round())))
            });
            if was_there.await? { Ok(ConsumerAnswer::Deleted) } else { Err(no_consumer().into()) }
        }
        ConsumerAsk::Pause { consumer, body } => {
            saved_turn(node, led, &beside, deadline, move |state, turn| {
                let request =
                    PauseRequest::parse(body.as_bytes()).map_err(|error| StreamFailure::of(&error))?;
                let told = state.with(turn, &consumer, |member, out| {
                    member.pause(request.until, turn, out);
                    (member.facts(turn), member.is_unkept())
                });
                let (facts, is_unkept) = told.ok_or_else(no_consumer)?;
                let round = is_unkept.then(|| state.unsaved.next_round());
                Ok((ConsumerAnswer::Facts(Box::new(facts)), round))
            })
            .await
        }
        ConsumerAsk::Pull { consumer, body } => pull(node, led, &beside, consumer, body, deadline).await,
        ConsumerAsk::More(id) => more(node, &led, &beside, id, deadline).await,
        ConsumerAsk::Gone { consumer, pull, undelivered } => {
            turn(node, led, &beside, deadline, move |state, turn| {
                state.give_back(turn, &consumer, pull, &undelivered);
                Ok(ConsumerAnswer::Gone)
            })
            .await
        }
        ConsumerAsk::Acks(acks) => {
            saved_turn(node, led, &beside, deadline, move |state, turn| {
                let mut waits = false;
                let acked = acks.iter().map(|ack| take(state, turn, ack, &mut waits)).collect();
                Ok((ConsumerAnswer::Acked(acked), waits.then(|| state.unsaved.next_round())))
            })
            .await
        }
        ConsumerAsk::Flow(flow) => {
            turn(node, led, &beside, deadline, move |state, turn| {
                state.with(turn, &flow.consumer, |member, out| {
                    let handled = flow.handled.map(|(stream, consumer)| Sequences { stream, consumer });
                    let (consumer, mut view) = member.parts(turn);
                    consumer.flow_answer(&flow.subject, handled, &mut view, out);
                });
                Ok(ConsumerAnswer::Flowed)
            })
            .await
        }
        look => turn(node, led, &beside, deadline, move |state, turn| tell(state, turn, &look)).await,
    }
}

/// The answer where there is no consumer at all.
fn nothing(what: &ConsumerAsk) -> Result<ConsumerAnswer, NotServed> {
    match what {
        ConsumerAsk::Names { .. } => Ok(ConsumerAnswer::Names { total: 0, names: Vec::new() }),
        ConsumerAsk::List { .. } => Ok(ConsumerAnswer::List { total: 0, list: Vec::new() }),
        ConsumerAsk::Acks(acks) => Ok(ConsumerAnswer::Acked(vec![Acked::Nobody; acks.len()])),
        ConsumerAsk::Gone { .. } => Ok(ConsumerAnswer::Gone),
        ConsumerAsk::Flow(_) => Ok(ConsumerAnswer::Flowed),
        ConsumerAsk::Create(_)
        | ConsumerAsk::Info(_)
        | ConsumerAsk::Delete(_)
        | ConsumerAsk::Pause { .. }
        | ConsumerAsk::Pull { .. }
        | ConsumerAsk::More(_) => Err(no_consumer().into()),
    }
}

fn no_consumer() -> StreamFailure {
    StreamFailure::of(&ErrorKind::ConsumerNotFound.into())
}

/// Works on the consumers once the table has all that is committed.
async fn turn<T: std::marker::Send + 'static>(
    node: &Arc<Node>,
    led: Led,
    beside: &Arc<Beside>,
    deadline: Instant,
    work: impl FnOnce(&mut State, Turn<'_>) -> Result<T, StreamFailure> + std::marker::Send + 'static,
) -> Result<T, NotServed> {
    let beside = Arc::clone(beside);
    let looked = answer(node, led, deadline, move |table, led| {
        Ok(beside.look(table, &led.live, |state, turn| match state.is_closed {
            true => Ok(None),
            false => work(state, turn).map(Some),
        }))
    });
    looked.await??.ok_or_else(|| NotServed::Elsewhere("its consumers have just ended".to_owned()))
}

/// The same, and waits until the round that the work names is saved.
async fn saved_turn<T: std::marker::Send + 'static>(
    node: &Arc<Node>,
    led: Led,
    beside: &Arc<Beside>,
    deadline: Instant,
    work: impl FnOnce(&mut State, Turn<'_>) -> Result<(T, Option<u64>), StreamFailure>
    + std::marker::Send
    + 'static,
) -> Result<T, NotServed> {
    let (done, round) = turn(node, led, beside, deadline, work).await?;
    if let Some(round) = round {
        beside.wait_saved(round, deadline).await.map_err(NotServed::Elsewhere)?;
    }
    Ok(done)
}

/// Tells of consumers.
fn tell(state: &mut State, turn: Turn<'_>, what: &ConsumerAsk) -> Result<ConsumerAnswer, StreamFailure> {
    let from = |offset: i64| usize::try_from(offset).unwrap_or(0);
    let total = state.members.len();
    match what {
        ConsumerAsk::Info(name) => {
            let facts = state.with(turn, name, |member, _| member.facts(turn));
            facts.map(|facts| ConsumerAnswer::Facts(Box::new(facts))).ok_or_else(no_consumer)
        }
        ConsumerAsk::Names { offset } => {
            let names = state.members.keys().skip(from(*offset)).take(NAMES_PAGE);
            Ok(ConsumerAnswer::Names { total, names: names.map(ToString::to_string).collect() })
        }
        ConsumerAsk::List { offset } => {
            let page = state.members.values_mut().skip(from(*offset)).take(LIST_PAGE);
            let facts = |member: &mut Member| {
                let mut out = Outbox::default();
                member.sync(turn, &mut out);
                member.send(turn.boxes, &turn.table.contents, &mut out);
                member.facts(turn)
            };
            Ok(ConsumerAnswer::List { total, list: page.map(facts).collect() })
        }
        // The caller has taken the others.
        _ => Err(StreamFailure::NoStream),
    }
}

/// Takes in an acknowledgement. `waits` becomes true if it may be answered only when it is saved.
fn take(state: &mut State, turn: Turn<'_>, ask: &AckAsk, waits: &mut bool) -> Acked {
    let taken = state.with(turn, &ask.consumer, |member, out| {
        if !member.consumer.takes_acks() {
            return Acked::Nobody;
        }
        let Names { stream, consumer: name } = member.consumer.names().clone();
        let AckAsk { stream_seq, consumer_seq, deliveries, .. } = *ask;
        let subject = AckSubject {
            domain: None,
            stream: &stream,
            consumer: &name,
            deliveries,
            stream_seq,
            consumer_seq,
        };
        let reply: Arc<str> = "".into();
        let reply = ask.wants_answer.then_some(&reply);
        let (consumer, mut view) = member.parts(turn);
        consumer.ack(Ack { subject, payload: ask.payload.as_bytes(), reply }, &mut view, turn.at, out);
        let answers = |send: &Send| matches!(send, Send::Empty { .. });
        let is_late = out.after_save.iter().any(answers);
        *waits |= is_late;
        match is_late || out.now.iter().any(answers) {
            true => Acked::Answered,
            false => Acked::Silent,
        }
    });
    taken.unwrap_or(Acked::Nobody)
}

/// Takes in a pull, and waits for what comes first.
async fn pull(
    node: &Arc<Node>,
    led: Led,
    beside: &Arc<Beside>,
    consumer: String,
    body: String,
    deadline: Instant,
) -> Result<ConsumerAnswer, NotServed> {
    let max = usize::try_from(node.config().tailrace_jetstream_pulls_max).unwrap_or(usize::MAX);
    let again = led.again();
    let taken = turn(node, led, beside, deadline, move |state, turn| {
        let member = state.members.get(&*consumer).ok_or_else(no_consumer)?;
        let (name, names) = (Arc::clone(&member.name), member.consumer.names());
        let added = turn.boxes.pulls.add(names, &member.unread, max);
        let pull = added.ok_or(StreamFailure::Busy)?;
        let waits = state.with(turn, &name, |member, out| {
            let (consumer, mut view) = member.parts(turn);
            consumer.pull(&pull.inbox, body.as_bytes(), &mut view, turn.at, out)
        });
        if waits != Some(true) {
            pull.end();
        }
        Ok(pull)
    });
    let pull = taken.await?;
    open(node, &again, beside, &pull, deadline).await
}

async fn more(
    node: &Arc<Node>,
    led: &Led,
    beside: &Arc<Beside>,
    id: u64,
    deadline: Instant,
) -> Result<ConsumerAnswer, NotServed> {
    let pull = beside.pulls.get(id).ok_or_else(no_consumer)?;
    open(node, led, beside, &pull, deadline).await
}

/// Waits for something in the box of a pull, and reads its messages.
async fn open(
    node: &Arc<Node>,
    led: &Led,
    beside: &Arc<Beside>,
    pull: &Arc<Pull>,
    deadline: Instant,
) -> Result<ConsumerAnswer, NotServed> {
    let Taken { items, is_over, was_crowded } = pull.take(deadline).await;
    if is_over {
        beside.pulls.remove(pull.id);
    }
    if was_crowded {
        beside.nudge(&pull.names.consumer);
    }
    let items = read(node, led, &pull.names, items).await?;
    Ok(ConsumerAnswer::Pulled(Pulled { pull: pull.id, items, is_over }))
}
