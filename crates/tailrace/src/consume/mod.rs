//! `tailrace consume`: prints the records of a topic to standard output.
//!
//! Two threads share the work. One fetches ([`fetcher`]), and sends the next fetch before it hands over the
//! last one. The other decodes, filters and writes ([`printer`]). The queue between them holds few fetches,
//! which bounds the memory.

mod aborted;
mod arguments;
mod fetcher;
mod format;
mod json;
mod printer;
mod range;
mod start;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use tailrace_cli::failure::{self, Failure, Status};
use tailrace_cli::output::Output;
use tailrace_cli::text::units;
use tokio::sync::{mpsc, oneshot};

use crate::client::{Cluster, block_on, find_topic};
use crate::interrupt::{FINISH, Interrupt, Stop, ended};

pub(crate) use arguments::ConsumeArguments;
use fetcher::Fetcher;
pub(crate) use format::RecordOrigin;
pub(crate) use json::write_record as write_json_record;
pub(crate) use printer::DECOMPRESSED_BYTES_MAX;
use printer::{Printed, Printer};

/// Fetches that were received but not yet written.
const CHUNKS_MAX: usize = 2;
/// Most partitions whose next offsets the summary lists.
const NEXT_MAX: usize = 8;

pub(crate) fn run(arguments: &ConsumeArguments) -> Result<ExitCode, Failure> {
    let style = arguments.style()?;
    block_on(async {
        let mut cluster = Cluster::connect(&arguments.connect).await?;
        let topic = find_topic(&mut cluster, &arguments.topic).await?;
        let ranges = start::ranges(&mut cluster, &topic, arguments).await?;
        let (chunks, received) = mpsc::channel(CHUNKS_MAX);
        let printer = Printer::new(topic.name.clone(), style, arguments.print_rules())?;
        let mut interrupt = Interrupt::install(FINISH)?;
        let started = Instant::now();
        let (done, printed) = oneshot::channel();
        // The receiver is gone only if the verb has failed.
        std::thread::spawn(move || drop(done.send(printer.run(received))));
        let (fetched, stop) = tokio::select! {
            fetched = Fetcher::new(cluster, topic, arguments.fetch_rules(), ranges).run(chunks) => (fetched, None),
            stop = interrupt.wait() => (Ok(()), Some(stop)),
        };
        // What has been fetched is still written.
        let printed = printed.await.unwrap_or_else(|_| Err("writing failed unexpectedly".into()))?;
        fetched?;
        // With --follow a signal is the normal end, and nothing is missing then. Otherwise the signal came
        // before the end.
        let has_enough = arguments.count.is_some_and(|count| printed.records >= count);
        let is_complete = has_enough || (arguments.follow && arguments.count.is_none());
        if let Some(stop) = stop.filter(|_| !has_enough) {
            arguments.tell(&printed, stop, is_complete, started.elapsed());
        }
        if printed.skipped > 0 {
            return Ok(Status::Failed.into());
        }
        Ok(ended(stop.filter(|_| !is_complete)))
    })
}

impl ConsumeArguments {
    /// Reports how far it got before a signal.
    fn tell(&self, printed: &Printed, stop: Stop, is_complete: bool, time: Duration) {
        let (records, bytes, seconds) = (printed.records, printed.bytes, time.as_secs_f64());
        if self.output == Output::Json {
            return failure::tell_object(&json!({
                "topic": self.topic,
                "complete": is_complete,
                "stopped_by": stop.name(),
                "records": records,
                "bytes": bytes,
                "seconds": seconds,
                "next_offsets": printed.next,
            }));
        }
        let next = printed.next.iter().take(NEXT_MAX);
        let next: Vec<_> =
            next.map(|(partition, at)| format!("{}-{partition} at {at}", self.topic)).collect();
        let more = if printed.next.len() > NEXT_MAX { ", ..." } else { "" };
        let next = if next.is_empty() { String::new() } else { format!("; next: {}{more}", next.join(", ")) };
        failure::tell(&format!(
            "ended by {}: {} written, {} in {seconds:.2} s{next}",
            stop.name(),
            units::plural(records, "record"),
            units::bytes(bytes as f64),
        ));
    }
}
