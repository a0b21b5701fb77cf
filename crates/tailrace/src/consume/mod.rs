//! `tailrace consume`: from a topic to standard output.
//!
//! Two threads share the work. One fetches ([`fetcher`]), and asks for the next records before it hands the last ones over; the
//! other decodes, filters and writes ([`printer`]). Few fetches lie between them, which bounds the memory.

mod aborted;
mod arguments;
mod fetcher;
mod format;
mod json;
mod printer;
mod start;

use std::process::ExitCode;

use tokio::sync::mpsc;

use crate::client::{Cluster, block_on, find_topic};
use crate::failure::Failure;

pub(crate) use arguments::ConsumeArguments;
use fetcher::Fetcher;
pub(crate) use format::Place;
pub(crate) use json::write_record as write_json_record;
pub(crate) use printer::DECOMPRESSED_BYTES_MAX;
use printer::Printer;

/// Fetches that were received and are not written yet.
const CHUNKS_MAX: usize = 2;

pub(crate) fn run(arguments: &ConsumeArguments) -> Result<ExitCode, Failure> {
    let style = arguments.style()?;
    block_on(async {
        let mut cluster = Cluster::connect(&arguments.connect).await?;
        let topic = find_topic(&mut cluster, &arguments.topic).await?;
        let ranges = start::ranges(&mut cluster, &topic, arguments).await?;
        let (chunks, received) = mpsc::channel(CHUNKS_MAX);
        let printer =
            Printer::new(topic.name.clone(), style, arguments.count, arguments.is_read_committed())?;
        let printing = std::thread::spawn(move || printer.run(received));
        let fetched = Fetcher::new(cluster, topic, arguments.fetch_rules(), ranges).run(chunks).await;
        let printed = printing.join().unwrap_or_else(|_| Err("writing failed unexpectedly".into()));
        printed?;
        fetched?;
        Ok(ExitCode::SUCCESS)
    })
}
