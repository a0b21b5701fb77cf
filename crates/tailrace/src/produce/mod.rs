//! `tailrace produce`: sends standard input or files to a topic.
//!
//! Two threads share the work. One reads, splits lines and fills batches ([`input`], [`accumulator`]). The
//! other sends them, several requests in flight, and retries what failed ([`sender`]). A limit on the bytes
//! between the two bounds the memory, and slows the reader down to the server's pace.

mod accumulator;
mod arguments;
mod input;
mod lines;
mod partitioner;
mod progress;
mod queue;
mod sender;

use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use tailrace_cli::failure::{self, Failure};
use tailrace_cli::output::{Output, print_json};
use tailrace_cli::text::units;
use tailrace_kafka_wire::messages::InitProducerIdRequest;
use tailrace_types::{ProducerEpoch, ProducerId};
use tokio::sync::mpsc;

use crate::client::{ClientError, Cluster, Topic, block_on, check, retrying, topic_configs, wait_for_topic};
use crate::interrupt::{FINISH, Interrupt, Stop, ended};

use accumulator::{Accumulator, Limits, Producer};
pub(crate) use arguments::ProduceArguments;
use arguments::{Acks, Source};
use partitioner::Partitioner;
use progress::Progress;
use sender::{Delivery, Sender};

/// Kafka's default of `max.message.bytes`, for servers that do not report it.
const MESSAGE_BYTES_MAX: u64 = 1_048_588;
/// Batches queued between the threads. Their bytes have a separate limit.
const QUEUE_BATCHES_MAX: usize = 256;

pub(crate) fn run(arguments: &ProduceArguments) -> Result<ExitCode, Failure> {
    let source = Source::new(arguments)?;
    block_on(async {
        let mut cluster = Cluster::connect(&arguments.connect).await?;
        let topic = wait_for_topic(&mut cluster, &arguments.topic).await?;
        topic.choose(arguments.partition.as_slice())?;
        let producer = producer(&mut cluster, arguments).await?;
        let limits = limits(&mut cluster, arguments).await;
        let partitioner = Partitioner::new(topic.partitions.len(), arguments.partition);
        produce(cluster, topic, arguments, source, Accumulator::new(limits, producer, partitioner)).await
    })
}

async fn produce(
    cluster: Cluster,
    topic: Topic,
    arguments: &ProduceArguments,
    source: Source,
    accumulator: Accumulator,
) -> Result<ExitCode, Failure> {
    let progress = Arc::new(Progress::new(source.bytes_known(), arguments.shows_progress(&source)));
    let (batches, queue) = mpsc::channel(QUEUE_BATCHES_MAX);
    let delivery = Delivery {
        acks: arguments.acks,
        in_flight_max: arguments.in_flight,
        request_bytes_max: accumulator.batch_bytes(),
        timeout: arguments.connect.timeout,
    };
    let format = arguments.line_format()?;
    let outlet = accumulator::Outlet::new(batches, arguments.buffer_bytes);
    let started = Instant::now();
    // Dropping this end stops the reading.
    let (go_on, stopped) =
        UnixStream::pair().map_err(|error| format!("cannot start: {}", failure::plain(&error)))?;
    let mut interrupt = Interrupt::install(arguments.connect.timeout + FINISH)?;
    let reading = {
        let progress = Arc::clone(&progress);
        std::thread::spawn(move || {
            input::run(source, &format, accumulator.with_outlet(outlet), &progress, &stopped)
        })
    };
    let mut sending = pin!(Sender::new(cluster, topic, delivery, Arc::clone(&progress)).run(queue));
    let (sent, stop) = tokio::select! {
        sent = &mut sending => (sent, None),
        stop = interrupt.wait() => {
            drop(go_on);
            // What was read is still sent and acknowledged.
            (sending.await, Some(stop))
        }
    };
    progress.clear();
    // If sending failed, the reader may still wait for input. The process ends without it.
    let result = match sent {
        Ok(()) => reading.join().unwrap_or_else(|_| Err("reading the input failed unexpectedly".into())),
        Err(error) => Err(error.into()),
    };
    let is_complete = matches!(result, Ok(true));
    let stop = stop.filter(|_| !is_complete);
    finish(arguments, &progress, started, is_complete, stop)?;
    result.map(|_| ended(stop))
}

/// Requests a producer id for this run, so that the server recognizes a batch that is sent again.
async fn producer(
    cluster: &mut Cluster,
    arguments: &ProduceArguments,
) -> Result<Option<Producer>, ClientError> {
    if arguments.acks != Acks::All || arguments.no_idempotence {
        return Ok(None);
    }
    // An empty transactional id differs from null.
    let request = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: i32::MAX,
        ..Default::default()
    };
    retrying(cluster, async |cluster| {
        let answer = cluster.any().await?.call(&request).await?;
        check(answer.error_code, None, || {
            "cannot get a producer id (not needed with --no-idempotence)".to_owned()
        })?;
        Ok(Some(Producer { id: ProducerId(answer.producer_id), epoch: ProducerEpoch(answer.producer_epoch) }))
    })
    .await
}

/// Limits that make batches as large as the topic accepts. A server that does not report its limit is assumed
/// to have Kafka's default.
async fn limits(cluster: &mut Cluster, arguments: &ProduceArguments) -> Limits {
    let topic = &arguments.topic;
    let configs = topic_configs(cluster, std::slice::from_ref(topic), Some(&["max.message.bytes"])).await;
    let value = configs.ok().and_then(|mut configs| configs.remove(topic)).unwrap_or_default();
    let value = value.into_iter().find(|config| config.name == "max.message.bytes").and_then(|c| c.value);
    let message_bytes_max = value.and_then(|value| value.parse().ok()).unwrap_or(MESSAGE_BYTES_MAX);
    Limits {
        batch_bytes: arguments.batch_bytes.min(message_bytes_max),
        message_bytes_max,
        open_bytes_max: arguments.buffer_bytes,
        linger: arguments.linger(),
        compression: arguments.compression,
    }
}

/// Reports what was acknowledged, also if the rest was not.
fn finish(
    arguments: &ProduceArguments,
    progress: &Progress,
    started: Instant,
    is_complete: bool,
    stop: Option<Stop>,
) -> Result<(), Failure> {
    let seconds = started.elapsed().as_secs_f64();
    let (records, bytes) = progress.acknowledged();
    let rate = |count: u64| count as f64 / seconds.max(1e-9);
    if arguments.output == Output::Json {
        print_json(&json!({
            "topic": arguments.topic,
            "complete": is_complete,
            "stopped_by": stop.map(Stop::name),
            "records": records,
            "bytes": bytes,
            "seconds": seconds,
            "records_per_second": rate(records),
            "bytes_per_second": rate(bytes),
        }))?;
    } else if !arguments.quiet {
        let begin = stop.map_or_else(String::new, |stop| format!("ended by {}: ", stop.name()));
        let verb = if arguments.acks == Acks::None { "sent" } else { "acknowledged" };
        failure::tell(&format!(
            "{begin}{} {verb}, {} in {seconds:.2} s: {} records/s, {}/s",
            units::plural(records, "record"),
            units::bytes(bytes as f64),
            units::count(rate(records)),
            units::bytes(rate(bytes)),
        ));
    }
    Ok(())
}
