//! The task of a stream's consumers: it has them loaded, keeps their deadlines, and tells them of new
//! messages.

use std::sync::Arc;

use tailrace_coordination::stream_consumers::{ConsumersAnswer, ConsumersRequest};
use tailrace_env::task::stopped;
use tailrace_env::time::{Duration, Instant, sleep_until};
use tailrace_env::{select, task, time};
use tailrace_types::TopicId;

use super::super::serve::{Led, NotServed, answer, led};
use super::beside::{Beside, Looked, moment};
use super::kept::ask;
use super::registry::Found;
use super::saving::{Over, load, may_be_kept, save};
use super::sending::{send, tell};
use crate::node::Node;

/// Longest pause between two looks: for pulls that nobody asks for any more, and consumers that nobody has.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Pause before the table is asked for again that is not there.
const AGAIN: Duration = Duration::from_millis(50);

/// Time for the question how many consumers there are.
const COUNT_PATIENCE: Duration = Duration::from_secs(1);

/// Time in which the table has to be there.
const PATIENCE: Duration = Duration::from_secs(1);

/// The consumers of a stream, as soon as they are loaded. `None` if there are none, and the question makes
/// none.
pub(super) async fn consumers(
    node: &Arc<Node>,
    led: &Led,
    is_create: bool,
    deadline: Instant,
) -> Result<Option<Arc<Beside>>, NotServed> {
    let beside = match node.streams.consumers.find(&led.live.handle) {
        Found::There(beside) => beside,
        Found::None if !is_create => return Ok(None),
        Found::Unknown if !is_create && !may_be_kept(node) => return Ok(None),
        Found::None | Found::Unknown => get_or_begin(node, led)?,
    };
    beside.wait_loaded(deadline).await.map_err(NotServed::Elsewhere)?;
    Ok(Some(beside))
}

/// How many consumers a stream has. While they cannot be loaded, durable ones are missing: what there is to
/// tell of a stream does not depend on them.
pub(in super::super) async fn count(node: &Arc<Node>, topic: [u8; 16]) -> Result<usize, NotServed> {
    let led = led(node, topic)?;
    let deadline = Instant::now() + COUNT_PATIENCE;
    let beside = match node.streams.consumers.find(&led.live.handle) {
        Found::There(beside) => beside,
        Found::None => return Ok(0),
        Found::Unknown => match time::timeout_at(deadline, has_any(node, TopicId(topic))).await {
            Ok(true) => get_or_begin(node, &led)?,
            Ok(false) | Err(_) => return Ok(0),
        },
    };
    // What is not loaded by then is not counted.
    let _ = beside.wait_loaded(deadline).await;
    Ok(beside.count())
}

/// Whether durable consumers of the stream are kept, as far as their coordinator answers.
async fn has_any(node: &Arc<Node>, topic: TopicId) -> bool {
    let has_any = ConsumersRequest::HasAny { topic };
    may_be_kept(node) && matches!(ask(node, has_any).await, Ok(ConsumersAnswer::HasAny(true)))
}

/// The consumers of a stream. There may be none yet.
pub(super) fn get_or_begin(node: &Arc<Node>, led: &Led) -> Result<Arc<Beside>, NotServed> {
    let handle = &led.live.handle;
    let over = || NotServed::Elsewhere("another node leads the stream".to_owned());
    let epoch = handle.leads().ok_or_else(over)?;
    let begin = |beside: &Arc<Beside>| {
        task::spawn(keep(Arc::clone(node), Arc::clone(beside)));
    };
    Ok(node.streams.consumers.get_or_add(led.topic.id.0, handle, epoch, begin))
}

/// Keeps the consumers of a stream until there are none, or until another node leads it.
async fn keep(node: Arc<Node>, beside: Arc<Beside>) {
    let is_rest = match beside.writer() {
        Some(_) => keep_loaded(&node, &beside).await,
        None => match load(&node, &beside).await {
            Ok(()) => keep_loaded(&node, &beside).await,
            Err(Over) => false,
        },
    };
    node.streams.consumers.remove(&beside, beside.writer().filter(|_| is_rest));
    let is_deleted = node.topics().by_id(beside.topic).is_none();
    let (topic, is_given_up) = (beside.topic, beside.is_given_up());
    if let Err(error) = task::spawn_blocking(move || beside.end(is_deleted)).await {
        tracing::error!(%error, "a bug in the server: ending the consumers of a stream panicked");
    }
    // What was saved last goes on, if this node still leads.
    if is_rest || *node.stopping.borrow() {
        return;
    }
    if !is_given_up {
        time::sleep(PAUSE_MAX).await;
    }
    if let Ok(led) = led(&node, topic) {
        drop(get_or_begin(&node, &led));
    }
}

/// Returns whether there are none left.
async fn keep_loaded(node: &Arc<Node>, beside: &Arc<Beside>) -> bool {
    task::spawn(save(Arc::clone(node), Arc::clone(beside)));
    let mut stopping = node.stopping.subscribe();
    let mut leadership = node.links.own_leadership();
    let mut seen = None;
    loop {
        if !beside.is_led() || beside.is_given_up() || *node.stopping.borrow() {
            return false;
        }
        let Ok(led) = led(node, beside.topic) else {
            if node.topics().by_id(beside.topic).is_none() {
                return false;
            }
            time::sleep(AGAIN).await;
            continue;
        };
        // Registered before it looks, so that it sees everything that comes behind its look.
        let mut progress = led.live.progress();
        let at = led.live.at();
        if std::mem::replace(&mut seen, at) != at {
            beside.appended();
        }
        let looked = {
            let beside = Arc::clone(beside);
            answer(node, led, Instant::now() + PATIENCE, move |table, led| {
                Ok(beside.look(table, &led.live, |state, turn| beside.due_turn(state, turn)))
            })
        };
        let looked = looked.await;
        for push in beside.pushes.filled() {
            task::spawn(send(Arc::clone(node), Arc::clone(beside), push));
        }
        let events = beside.pushes.events.take();
        if !events.is_empty() {
            task::spawn(tell(Arc::clone(beside), events));
        }
        match looked {
            Ok(Looked::More) => continue,
            Ok(Looked::Idle) => {}
            Ok(Looked::Closed) => return true,
            Err(NotServed::Elsewhere(_) | NotServed::Failed(_)) => {
                time::sleep(AGAIN).await;
                continue;
            }
        }
        select! {
            () = beside.wake.notified() => {}
            () = sleep_until(due(beside)) => {}
            _ = progress.changed() => {}
            _ = leadership.changed() => {}
            () = stopped(&mut stopping) => {}
        }
    }
}

fn due(beside: &Beside) -> Instant {
    let left_ns = beside.due_ns().saturating_sub(moment().now_ns);
    let left = Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0));
    Instant::now() + left.min(PAUSE_MAX)
}
