//! Judges a request at the leader, turn by turn, and appends what passes.

use std::sync::Arc;
use tailrace_env::task;
use tailrace_env::time::{self, Duration, Instant};

use bytes::Bytes;
use tailrace_records::{BatchError, Compression, DecodedBatch};
use tailrace_types::{RaftGroup, usize_of};

use super::given::{Given, Progress, Step};
use super::judging::Judging;
use super::repeated::{self, Before, Found};
use super::types::{NotPublished, PublishRequest, Published, PublishedHere, Sender};
use crate::node::Node;
use crate::partitions::{Appending, PartitionHandle, Topic, appending};
use crate::streams::failure::StreamFailure;
use crate::streams::live::{LiveStream, NotReached};
use crate::streams::serve::{NotServed, live};

/// Batches with fewer bytes are judged on the event loop, if they are not compressed.
const SHORT_BYTES: usize = 64 * 1024;

/// Pause before a stream is looked at again whose settings or table are about to change.
const AGAIN: Duration = Duration::from_millis(5);

/// Judges the messages of a request, in order, and appends those that pass.
///
/// # Errors
/// [`NotPublished`]
pub(crate) async fn publish_here(
    node: &Arc<Node>,
    topic: &Arc<Topic>,
    handle: &Arc<PartitionHandle>,
    request: PublishRequest,
    deadline: Instant,
) -> Result<PublishedHere, NotPublished> {
    let judging = judging(node, topic, handle)?;
    let epoch = judging.epoch;
    if request.sender.and_then(|sender| sender.epoch).is_some_and(|wanted| wanted != epoch) {
        return Err(again("the node leads the stream in another epoch"));
    }
    let gate = time::timeout_at(deadline, judging.gate.lock()).await;
    let _gate = gate.map_err(|_| again("others wait for the table of the stream"))?;
    let (node, judging, request) = (Arc::clone(node), Arc::clone(&judging), Arc::new(request));
    Run { node, judging, request, deadline }.to_the_end(topic.id.0).await
}

fn again(reason: &str) -> NotPublished {
    NotPublished::Again(reason.to_owned())
}

/// Returns what is kept for the checks of a stream that this node leads.
fn judging(
    node: &Arc<Node>,
    topic: &Topic,
    handle: &Arc<PartitionHandle>,
) -> Result<Arc<Judging>, NotPublished> {
    let epoch = handle.leads().ok_or_else(|| again("another node leads the stream"))?;
    let no_stream = || NotPublished::Refused(StreamFailure::NoStream.to_string());
    let translator = node.streams.translator.as_ref().ok_or_else(no_stream)?;
    if topic.partition_count() != 1 || topic.internal {
        return Err(no_stream());
    }
    let group: RaftGroup = handle.group;
    let mut all = node.streams.judging.lock();
    let is_it =
        |known: &&Arc<Judging>| known.epoch == epoch && Arc::ptr_eq(&known.handle, handle) && known.is_led();
    if let Some(known) = all.get(&group).filter(is_it) {
        return Ok(Arc::clone(known));
    }
    all.retain(|_, known| known.is_led());
    let new = Arc::new(Judging::new(handle, epoch, topic, translator, node.streams.id_key));
    all.insert(group, Arc::clone(&new));
    Ok(new)
}

struct Run {
    node: Arc<Node>,
    judging: Arc<Judging>,
    request: Arc<PublishRequest>,
    deadline: Instant,
}

impl Run {
    async fn to_the_end(&self, topic: [u8; 16]) -> Result<PublishedHere, NotPublished> {
        let (mut is_short, mut progress) = (self.is_short(), Progress::default());
        loop {
            let current = self.node.topics().by_id(topic);
            let current = current.ok_or_else(|| progress.failed("the topic was deleted".to_owned(), true))?;
            let live = match live(&self.node, &current, &self.judging.handle) {
                Ok(live) => live,
                Err(NotServed::Elsewhere(reason)) => return Err(progress.late(&self.request, &reason)),
                Err(NotServed::Failed(failure)) => return self.cannot(progress, &failure).await,
            };
            let step;
            (progress, step) = self.step(&current, &live, is_short, progress).await?;
            match step {
                Step::Done => return Ok(progress.done()),
                Step::Known(published, stored) => {
                    let published = Vec::clone(&published);
                    return Ok(Progress { published, stored, ..progress }.done());
                }
                Step::Failed(failure) => return Err(failure),
                Step::OnThread => is_short = false,
                Step::Settle(target) => match live.wait(target, self.deadline).await {
                    Ok(()) => {}
                    Err(NotReached::Failed(failure)) => return self.cannot(progress, &failure).await,
                    Err(NotReached::Late) => {
                        return Err(progress.late(&self.request, "the table of the stream is being made"));
                    }
                    Err(NotReached::Over) => self.pause(&progress).await?,
                },
                Step::Pause => self.pause(&progress).await?,
                Step::Look(found) => progress.before = Some(self.look(found).await?),
            }
        }
    }

    async fn pause(&self, progress: &Progress) -> Result<(), NotPublished> {
        if Instant::now() + AGAIN >= self.deadline {
            return Err(progress.late(&self.request, "the settings of the stream change"));
        }
        time::sleep(AGAIN).await;
        Ok(())
    }

    /// The stream cannot be judged. The request is refused for that, unless some of it is stored.
    async fn cannot(
        &self,
        mut progress: Progress,
        failure: &StreamFailure,
    ) -> Result<PublishedHere, NotPublished> {
        let request = Arc::clone(&self.request);
        let work = move |appending: &mut Appending<'_>| {
            let state = |sender: &Sender| repeated::before(appending.producer(sender.producer), sender);
            request.sender.is_none_or(|sender| state(&sender) == Before::Nothing)
        };
        let is_new = appending(&self.node, &self.judging.handle, true, work).await;
        let is_new = is_new.map_err(|failure| progress.late(&self.request, &failure.to_string()))?;
        if progress.has_appended || !is_new {
            return Err(NotPublished::Unknown(failure.to_string()));
        }
        let messages = self.messages().map_err(|error| NotPublished::Refused(error.to_string()))?;
        let error = Box::new(failure.to_api_error());
        progress.published = vec![Published::Refused(error); messages];
        Ok(progress.done())
    }

    fn messages(&self) -> Result<usize, BatchError> {
        let headers = self.request.batches.iter().map(|batch| tailrace_records::check(batch));
        headers.map(|header| header.map(|header| usize::try_from(header.record_count).unwrap_or(0))).sum()
    }

    fn is_short(&self) -> bool {
        let is_plain = |batch: &Bytes| {
            tailrace_records::check(batch)
                .is_ok_and(|header| header.attributes.compression() == Ok(Compression::None))
        };
        let bytes: usize = self.request.batches.iter().map(Bytes::len).sum();
        bytes <= SHORT_BYTES && self.request.batches.iter().all(is_plain)
    }

    async fn step(
        &self,
        topic: &Arc<Topic>,
        live: &Arc<LiveStream>,
        is_short: bool,
        mut progress: Progress,
    ) -> Result<(Progress, Step), NotPublished> {
        let node = &self.node;
        let given = Given {
            judging: Arc::clone(&self.judging),
            request: Arc::clone(&self.request),
            topic: Arc::clone(topic),
            live: Arc::clone(live),
            wanted: node.taps.wanted(topic, node.relay.known_to),
            now: node.now().0,
            decompressed: usize_of(node.config().tailrace_decompressed_bytes_max),
            ids_max: node.config().tailrace_jetstream_stream_ids_max as usize,
            is_short,
        };
        let failed = progress.late(&self.request, "");
        let work = move |appending: &mut Appending<'_>| {
            let step = given.take(appending, &mut progress);
            (progress, step)
        };
        let done = appending(node, &self.judging.handle, is_short, work).await;
        done.map_err(|failure| match failed {
            NotPublished::Unknown(_) => NotPublished::Unknown(failure.to_string()),
            NotPublished::Again(_) | NotPublished::Refused(_) => NotPublished::Again(failure.to_string()),
        })
    }

    /// Finds out which messages an earlier leader has stored.
    async fn look(&self, found: Vec<Found>) -> Result<Vec<Option<u64>>, NotPublished> {
        let (judging, request) = (Arc::clone(&self.judging), Arc::clone(&self.request));
        let decompressed = usize_of(self.node.config().tailrace_decompressed_bytes_max);
        let work = move || {
            let stored = repeated::stored(&judging.handle, judging.id_key, &found, decompressed)?;
            let mut messages = Vec::new();
            for batch in &request.batches {
                let decoded = DecodedBatch::new(batch, decompressed).map_err(|error| error.to_string())?;
                for record in decoded.records() {
                    let record = record.map_err(|error| error.to_string())?;
                    messages.push(repeated::look(judging.id_key, &record));
                }
            }
            repeated::matched(&messages, &stored).ok_or_else(|| "it is not what is stored".to_owned())
        };
        let found = task::spawn_blocking(work).await;
        found.map_err(|error| error.to_string()).flatten().map_err(NotPublished::Unknown)
    }
}
