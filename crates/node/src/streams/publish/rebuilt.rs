//! Batches without the messages that did not pass.

use bytes::Bytes;
use tailrace_records::{BatchBuilder, BatchError, BatchHeader, BatchOptions, Record};
use tailrace_types::{ProducerEpoch, TimestampMs};

use super::given::Given;
use super::types::Sender;

/// Builds batches again without what was not stored.
pub(super) struct Rebuilding<'a> {
    given: &'a Given,
    sequence: i32,
    current: BatchBuilder,
    built: Vec<(BatchHeader, Bytes)>,
}

impl<'a> Rebuilding<'a> {
    /// `stored`: how many records of the request are stored before.
    pub(super) fn new(given: &'a Given, stored: i32) -> Self {
        let current = Self::builder(given);
        let sequence = given.request.sender.map_or(0, |sender| sender.sequence + stored);
        Self { given, sequence, current, built: Vec::new() }
    }

    fn builder(given: &Given) -> BatchBuilder {
        let topic = &given.topic;
        let now = TimestampMs(given.now);
        BatchBuilder::new(BatchOptions {
            compression: topic.stored_compression().unwrap_or_default(),
            levels: topic.compression_levels(),
            log_append_time: topic.log_append_time.then_some(now),
            ..BatchOptions::default()
        })
    }

    pub(super) fn push(&mut self, record: &Record<'_>) -> Result<(), BatchError> {
        let headers: Vec<_> = record.headers.map(|header| (header.key, header.value)).collect();
        let most = self.given.topic.batch_bytes_max();
        let most = most - most / 64;
        let pushed = self.current.push_within(most, record.timestamp, record.key, record.value, &headers);
        if pushed.is_ok() || self.current.is_empty() {
            return pushed
                .or_else(|_| self.current.push(record.timestamp, record.key, record.value, &headers));
        }
        self.end();
        self.current.push(record.timestamp, record.key, record.value, &headers)
    }

    fn end(&mut self) {
        let builder = std::mem::replace(&mut self.current, Self::builder(self.given));
        if builder.is_empty() {
            return;
        }
        let count = i32::try_from(builder.len()).unwrap_or(i32::MAX);
        let builder = match self.given.request.sender {
            Some(Sender { producer, .. }) => builder.of_producer(producer, ProducerEpoch(0), self.sequence),
            None => builder,
        };
        self.sequence = self.sequence.saturating_add(count);
        self.built.push(builder.build_with_header());
    }

    pub(super) fn done(mut self) -> Vec<(BatchHeader, Bytes)> {
        self.end();
        self.built
    }
}
