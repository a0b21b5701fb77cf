//! DIRECT.GET: answers that are messages, one or many.

use tailrace_jetstream::api::{bodies::DirectRefusal, bodies::MessageGet, has_level};
use tailrace_node::streams::{From, Messages, ReadBounds, Select, StoredMessage, StreamFailure, UpTo};

use super::asked::{Asked, Speaker, Spoken};
use super::header::{added, status};
use super::messages::{MS, read, selection};
use super::state::time_of;
use super::stream::Stream;

/// Most subjects of an answer to several patterns, unless the request bounds their number.
const SUBJECTS_MAX: u64 = 1024;

/// Reads many messages for one request.
struct Batch<'a> {
    speaker: Speaker<'a>,
    stream: &'a Stream,
    request: &'a MessageGet,
    /// Whether each subject's last message is wanted.
    is_multi: bool,
    messages_left: u64,
    bytes_left: u64,
    /// The last sequence that was sent.
    last: u64,
    pending: u64,
    upto: u64,
}

/// Answers a direct get. Without such a stream, or where it does not allow this, nobody answers.
pub(super) async fn answer(
    asked: Asked<'_>,
    stream: &str,
    parsed: Result<MessageGet, DirectRefusal>,
) -> Spoken {
    let Ok(stream) = asked.stream(stream) else { return Spoken::NoResponders };
    if !stream.config.allow_direct || !asked.rights().may_read(&stream) {
        return Spoken::NoResponders;
    }
    if asked.call.reply.is_none() {
        return Spoken::Done;
    }
    if !has_level(asked.call.level.as_deref()) {
        return say_status(asked, "412 Required Api Level").await;
    }
    let request = match parsed {
        Ok(request) => request,
        Err(refusal) => return say_status(asked, refusal.status()).await,
    };
    let is_multi = !request.multi_last_for.is_empty();
    if is_multi || request.batch > 0 {
        return many(asked, &stream, &request, is_multi).await;
    }
    match read(asked, &stream, selection(&request), ReadBounds { messages: 1, bytes: u64::MAX }).await {
        Ok(found) => {
            let mut speaker = Speaker::of(asked);
            for message in &found.messages {
                say_message(&mut speaker, &stream, message, request.no_headers, &[]).await;
            }
            Spoken::Done
        }
        Err(failure) => say_failure(asked, &failure, is_multi).await,
    }
}

async fn many(asked: Asked<'_>, stream: &Stream, request: &MessageGet, is_multi: bool) -> Spoken {
    let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
    let bytes_max = asked.server.front.limits().out.pending_max as u64;
    let mut batch = Batch {
        speaker: Speaker::of(asked),
        stream,
        request,
        is_multi,
        messages_left: positive(request.batch).unwrap_or(u64::MAX),
        bytes_left: positive(request.max_bytes).map_or(bytes_max, |bytes| bytes.min(bytes_max)),
        last: 0,
        pending: 0,
        upto: 0,
    };
    let mut from = None;
    loop {
        let bounds = ReadBounds { messages: batch.messages_left, bytes: batch.bytes_left };
        match read(asked, stream, batch.select(from), bounds).await {
            Ok(found) => {
                batch.say(&found).await;
                batch.speaker.rest().await;
                from = found.next.filter(|_| batch.messages_left > 0 && batch.bytes_left > 0);
                if from.is_none() {
                    break;
                }
            }
            Err(StreamFailure::NoMessage) if batch.last > 0 => break,
            Err(failure) => return say_failure(asked, &failure, is_multi).await,
        }
    }
    batch.end().await
}

impl Batch<'_> {
    /// What to read: from this sequence on, if a part was read before.
    fn select(&self, from: Option<u64>) -> Select {
        let request = self.request;
        if self.is_multi {
            return Select::LastOfEach {
                filters: request.multi_last_for.clone(),
                from: from.unwrap_or(request.sequence),
                upto: self.bound(),
                subjects_max: (request.batch <= 0 && from.is_none()).then_some(SUBJECTS_MAX),
            };
        }
        let filter = request.next_for.clone();
        match (from, selection(request)) {
            (Some(sequence), _) => Select::Next { filter, from: From::Sequence(sequence) },
            // In a batch, deleted messages are passed over.
            (None, Select::At(sequence)) => Select::Next { filter, from: From::Sequence(sequence) },
            (None, select) => select,
        }
    }

    fn bound(&self) -> Option<UpTo> {
        // All pages show the stream as it was at the first one.
        if self.upto > 0 {
            return Some(UpTo::Sequence(self.upto));
        }
        match (self.request.up_to_sequence, self.request.up_to_time) {
            (0, Some(time)) => {
                let nanos = time.to_nanos();
                Some(UpTo::TimeMs(nanos.div_euclid(MS) + i64::from(nanos.rem_euclid(MS) > 0)))
            }
            (0, None) => None,
            (sequence, _) => Some(UpTo::Sequence(sequence)),
        }
    }

    async fn say(&mut self, found: &Messages) {
        if self.upto == 0 {
            self.upto = match self.request.up_to_sequence {
                0 => found.upto,
                asked_for => asked_for,
            };
        }
        let count = found.messages.len() as u64;
        for (message, behind) in found.messages.iter().zip((0..count).rev()) {
            self.pending = found.pending + behind;
            let (pending, last) = (self.pending.to_string(), self.last.to_string());
            let more = [("Nats-Num-Pending", pending.as_bytes()), ("Nats-Last-Sequence", last.as_bytes())];
            let no_headers = self.request.no_headers && !self.is_multi;
            say_message(&mut self.speaker, self.stream, message, no_headers, &more).await;
            self.last = message.sequence;
            self.messages_left = self.messages_left.saturating_sub(1);
            let bytes = message.subject.len() + message.headers.len() + message.payload.len();
            self.bytes_left = self.bytes_left.saturating_sub(bytes as u64);
        }
    }

    async fn end(&mut self) -> Spoken {
        let (pending, last, upto) = (self.pending.to_string(), self.last.to_string(), self.upto.to_string());
        let mut headers =
            vec![("Nats-Num-Pending", pending.as_bytes()), ("Nats-Last-Sequence", last.as_bytes())];
        if self.is_multi {
            headers.push(("Nats-UpTo-Sequence", upto.as_bytes()));
        }
        self.speaker.say(Some(&status("204 EOB", &headers)), b"").await;
        Spoken::Done
    }
}

async fn say_status(asked: Asked<'_>, text: &str) -> Spoken {
    Speaker::of(asked).say(Some(&status(text, &[])), b"").await;
    Spoken::Failed
}

async fn say_failure(asked: Asked<'_>, failure: &StreamFailure, is_multi: bool) -> Spoken {
    let text = match failure {
        StreamFailure::NoStream => return Spoken::NoResponders,
        StreamFailure::NoMessage if is_multi => "404 No Results".to_owned(),
        StreamFailure::NoMessage => "404 Message Not Found".to_owned(),
        StreamFailure::TooManySubjects(_) => "413 Too Many Results".to_owned(),
        StreamFailure::Subject(_) => "408 Bad Request".to_owned(),
        StreamFailure::NoLeader(_)
        | StreamFailure::TooLarge(_)
        | StreamFailure::Busy
        | StreamFailure::Unreadable(_)
        | StreamFailure::Api(..) => format!("500 {}", failure.to_api_error().description()),
    };
    say_status(asked, &text).await
}

/// Sends a message with the headers of the protocol, unless the client wants none.
async fn say_message(
    speaker: &mut Speaker<'_>,
    stream: &Stream,
    message: &StoredMessage,
    no_headers: bool,
    more: &[(&str, &[u8])],
) {
    if no_headers {
        return speaker.say(None, &message.payload).await;
    }
    let sequence = message.sequence.to_string();
    let time = time_of(message.time_ms).to_string();
    let mut headers: Vec<(&str, &[u8])> = vec![
        ("Nats-Stream", stream.name().as_bytes()),
        ("Nats-Subject", &message.subject),
        ("Nats-Sequence", sequence.as_bytes()),
        ("Nats-Time-Stamp", time.as_bytes()),
    ];
    headers.extend_from_slice(more);
    speaker.say(Some(&added(&message.headers, &headers)), &message.payload).await;
}
