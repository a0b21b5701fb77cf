//! INFO, STREAM.NAMES and STREAM.LIST.

use std::sync::Arc;

use tailrace_jetstream::api::{AccountInfo, AccountLimits, Page, StreamList, StreamNames, bodies};
use tailrace_jetstream::error::ApiError;

use super::asked::Asked;
use super::stream::Stream;
use super::{clusters, state};

/// Most streams whose bytes the account's information adds up. Their leaders have to be asked.
const SUMMED_MAX: usize = 1_000;

/// Most bytes of the configurations in one answer to LIST. A page is shorter for that, but has one stream.
const LISTED_BYTES_MAX: usize = 8 << 20;

/// How many streams an answer has room for, if their configurations have these sizes.
fn fitting(sizes: &[usize]) -> usize {
    let mut bytes = 0;
    let fits = |size: &&usize| {
        bytes += **size;
        bytes <= LISTED_BYTES_MAX
    };
    sizes.iter().take_while(fits).count().max(1)
}

/// The streams that the client may see, sorted by name.
fn visible(asked: Asked<'_>) -> Vec<Arc<Stream>> {
    let rights = asked.rights();
    asked.streams().iter().filter(|stream| rights.sees(stream)).cloned().collect()
}

/// Answers INFO.
pub(super) async fn account(asked: Asked<'_>) -> Result<AccountInfo, ApiError> {
    let streams = visible(asked);
    let summed = state::listed(asked, &streams[..streams.len().min(SUMMED_MAX)]).await;
    // A stream whose leader does not answer counts for nothing.
    let storage = summed.iter().flatten().map(|info| info.state.bytes).sum();
    let consumers = summed.iter().flatten().map(|info| info.state.consumer_count).sum();
    let jetstream = asked.jetstream;
    // The request itself runs, and does not wait.
    let waiting = jetstream.queue.requests().saturating_sub(1);
    Ok(AccountInfo {
        memory: 0,
        storage,
        reserved_memory: 0,
        reserved_storage: 0,
        streams: streams.len(),
        consumers,
        limits: AccountLimits::default(),
        domain: String::new(),
        api: jetstream.api_stats(waiting),
    })
}

/// Answers STREAM.NAMES.
pub(super) fn names(asked: Asked<'_>, body: &[u8]) -> Result<StreamNames, ApiError> {
    let request = bodies::ListRequest::of_stream_names(body)?;
    let streams = visible(asked);
    let names = streams.iter().filter(|stream| request.lists(&stream.config));
    let names: Vec<_> = names.map(|stream| stream.name().to_owned()).collect();
    let page = Page::of_names(names.len(), request.offset);
    Ok(StreamNames { page, streams: names[page.range()].to_vec() })
}

/// Answers STREAM.LIST. Streams whose leaders do not answer are named as missing.
pub(super) async fn list(asked: Asked<'_>, body: &[u8]) -> Result<StreamList, ApiError> {
    let request = bodies::ListRequest::of_stream_list(body)?;
    let mut streams = visible(asked);
    streams.retain(|stream| request.lists(&stream.config));
    let mut page = Page::of_list(streams.len(), request.offset);
    let sizes: Vec<_> = streams[page.range()].iter().map(|stream| stream.configuration_bytes()).collect();
    let fitting = fitting(&sizes);
    if fitting < sizes.len() {
        page.limit = fitting;
    }
    let mut list = StreamList { page, streams: Vec::new(), missing: Vec::new() };
    let wanted = &streams[page.range()];
    for (stream, told) in wanted.iter().zip(state::listed(asked, wanted).await) {
        match told {
            Ok(info) => {
                let cluster = clusters::of_change(asked, stream);
                list.streams.push(tailrace_jetstream::api::StreamInfo { cluster, ..info });
            }
            Err(error) => {
                tracing::debug!(stream = stream.name(), %error, "a stream did not tell what is in it");
                list.missing.push(stream.name().to_owned());
            }
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_very_large_configurations_is_shorter() {
        assert_eq!(fitting(&[100; 256]), 256);
        assert_eq!(fitting(&[LISTED_BYTES_MAX / 2; 3]), 2);
        assert_eq!(fitting(&[LISTED_BYTES_MAX + 1, 1]), 1);
    }
}
