//! The messages of a stream in memory.

use std::collections::BTreeMap;

use tailrace_jetstream::Time;
use tailrace_jetstream::api::{StreamState, bodies::PurgeRequest};
use tailrace_jetstream::error::ApiError;
use tailrace_jetstream::publish::{Publish, PublishHeaders, Rollup, StoredParts, StreamView, Verdict, judge};
use tailrace_jetstream::stream::StreamConfig;
use tailrace_jetstream::transform::Transform;

struct Message {
    subject: String,
    parts: StoredParts,
}

pub(crate) struct Messages {
    first: u64,
    last: u64,
    messages: BTreeMap<u64, Message>,
    ids: BTreeMap<Vec<u8>, u64>,
    last_id: Vec<u8>,
}

struct View<'a> {
    config: &'a StreamConfig,
    messages: &'a Messages,
}

impl Messages {
    pub(crate) fn new(config: &StreamConfig) -> Self {
        let first = config.first_seq;
        Self {
            first,
            last: first.saturating_sub(1),
            messages: BTreeMap::new(),
            ids: BTreeMap::new(),
            last_id: Vec::new(),
        }
    }

    pub(crate) fn state(&self) -> StreamState {
        StreamState {
            messages: self.messages.len() as u64,
            first_seq: self.first,
            last_seq: self.last,
            first_ts: Time::ZERO,
            ..StreamState::default()
        }
    }

    /// Only for streams without messages.
    pub(crate) fn purged(&mut self, request: &PurgeRequest) {
        let end = if request.sequence > 0 { request.sequence } else { self.last + 1 };
        if request.filter.is_empty() && request.keep == 0 && end > self.last {
            (self.first, self.last) = (end.max(self.last + 1), end.max(self.last + 1) - 1);
        }
    }

    pub(crate) fn missing(&self, sequence: u64) -> &'static str {
        if sequence > self.last { "stream store EOF" } else { "no message found" }
    }

    pub(crate) fn publish(
        &mut self,
        name: &str,
        config: &StreamConfig,
        subject: &str,
        headers: &[u8],
        payload: &[u8],
    ) -> String {
        let transform = config.subject_transform.as_ref();
        let transform = transform.and_then(|it| Transform::new(&it.source, &it.destination).expect("legal"));
        let subject = transform.and_then(|it| it.apply(subject, 0)).unwrap_or_else(|| subject.to_owned());
        let publish = Publish { subject: &subject, headers, payload, is_sourced: false };
        let verdict = judge(&publish, &View { config, messages: self });
        let sequence = self.last + 1;
        let ack = verdict.ack(name, None, sequence);
        let id = PublishHeaders::parse(headers).msg_id.to_vec();
        match verdict {
            Verdict::Store(store) => {
                self.last = sequence;
                match store.rollup {
                    Some(Rollup::All) => self.messages.clear(),
                    Some(Rollup::Subject) => self.messages.retain(|_, message| message.subject != subject),
                    None => {}
                }
                let mut headers =
                    if headers.is_empty() { b"NATS/1.0\r\n\r\n".to_vec() } else { headers.to_vec() };
                for edit in store.edits {
                    headers.truncate(headers.len() - 2);
                    headers.extend(format!("{}: {}\r\n\r\n", edit.name, edit.value).bytes());
                }
                let sum = store.sum.map(|sum| format!(r#"{{"val":"{sum}"}}"#).into_bytes());
                let parts = StoredParts { headers, payload: sum.unwrap_or_else(|| payload.to_vec()) };
                self.messages.insert(sequence, Message { subject, parts });
                self.trim(config);
            }
            Verdict::Skip { .. } => self.last = sequence,
            Verdict::Duplicate(_) | Verdict::Refused(_) => return ack,
        }
        if !id.is_empty() {
            self.ids.insert(id.clone(), sequence);
        }
        self.last_id = id;
        ack
    }

    fn trim(&mut self, config: &StreamConfig) {
        let most = usize::try_from(config.max_msgs_per_subject).unwrap_or(usize::MAX);
        let subjects: Vec<_> = self.messages.values().map(|message| message.subject.clone()).collect();
        for subject in subjects {
            let of_subject = self.messages.iter().filter(|(_, message)| message.subject == subject);
            let sequences: Vec<_> = of_subject.map(|(sequence, _)| *sequence).collect();
            for sequence in sequences.iter().take(sequences.len().saturating_sub(most)) {
                self.messages.remove(sequence);
            }
        }
    }
}

impl StreamView for View<'_> {
    fn config(&self) -> &StreamConfig {
        self.config
    }

    fn last_sequence(&self) -> u64 {
        self.messages.last
    }

    fn last_sequence_of(&self, pattern: &str) -> Option<u64> {
        let matcher = Transform::new(pattern, if pattern.ends_with('>') { "x.>" } else { "x" }).ok()??;
        let matches =
            |message: &Message| message.subject == pattern || matcher.apply(&message.subject, 0).is_some();
        self.messages
            .messages
            .iter()
            .rev()
            .find(|(_, message)| matches(message))
            .map(|(sequence, _)| *sequence)
    }

    fn last_message(&self, subject: &str) -> Option<StoredParts> {
        let found = self.messages.messages.values().rev().find(|message| message.subject == subject);
        found.map(|message| message.parts.clone())
    }

    fn duplicate_of(&self, id: &[u8]) -> Option<u64> {
        self.messages.ids.get(id).copied()
    }

    fn last_id(&self) -> &[u8] {
        &self.messages.last_id
    }

    fn messages(&self) -> u64 {
        self.messages.messages.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.messages.messages.values().map(bytes).sum()
    }

    fn messages_of(&self, subject: &str) -> u64 {
        self.messages.messages.values().filter(|message| message.subject == subject).count() as u64
    }

    fn oldest_bytes_of(&self, subject: &str) -> u64 {
        self.messages.messages.values().find(|message| message.subject == subject).map_or(0, bytes)
    }

    fn has_interest(&self, _: &str) -> bool {
        false
    }

    fn has_room(&self, _: u64) -> Result<(), ApiError> {
        Ok(())
    }

    fn has_time_zone(&self, name: &str) -> bool {
        name == "Europe/Berlin"
    }

    fn max_payload(&self) -> usize {
        1024 * 1024
    }

    fn now_nanos(&self) -> i64 {
        super::NOW
    }
}

/// As memory storage counts them. A message without headers has an empty block here.
fn bytes(message: &Message) -> u64 {
    let headers = message.parts.headers.len();
    let headers = if headers <= 12 { 0 } else { headers };
    (message.subject.len() + headers + message.parts.payload.len() + 16) as u64
}
