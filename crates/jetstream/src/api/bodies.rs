//! The bodies of requests, but for those that carry configurations.

use crate::consumer_config::is_group_name;
use crate::error::{ApiError, ErrorKind};
use crate::go::Time;
use crate::json::{fields, is_empty_request, is_object_or_list, lenient, strict};
use crate::stream::{Placement, StreamConfig};

/// Checks that a request says nothing, as those must that delete or show something.
///
/// # Errors
/// 10038.
pub fn nothing(body: &[u8]) -> Result<(), ApiError> {
    if is_empty_request(body) { Ok(()) } else { Err(ErrorKind::NotEmptyRequest.into()) }
}

/// Which page of a list is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// How many entries come before it.
    pub offset: i64,
    /// Streams some of whose subjects this pattern may match; empty for all.
    pub subject: String,
}

#[derive(Default)]
struct Paged {
    offset: i64,
}

fields! {
    Paged as "ApiPagedRequest";
    "offset" "int" offset
}

#[derive(Default)]
struct StreamNamesBody {
    paged: Paged,
    subject: String,
}

fields! {
    StreamNamesBody as "JSApiStreamNamesRequest", with paged as "ApiPagedRequest";
    "subject" "string" subject
}

#[derive(Default)]
struct StreamListBody {
    paged: Paged,
    subject: String,
}

fields! {
    StreamListBody as "JSApiStreamListRequest", with paged as "ApiPagedRequest";
    "subject" "string" subject
}

#[derive(Default)]
struct ConsumersBody {
    paged: Paged,
}

fields! {
    ConsumersBody as "JSApiConsumersRequest", with paged as "ApiPagedRequest";
}

impl ListRequest {
    /// The body of STREAM.NAMES.
    ///
    /// # Errors
    /// 10025.
    pub fn of_stream_names(body: &[u8]) -> Result<Self, ApiError> {
        let mut request = StreamNamesBody::default();
        optional(body, "server.JSApiStreamNamesRequest", &mut request)?;
        Ok(Self { offset: request.paged.offset.max(0), subject: request.subject })
    }

    /// The body of STREAM.LIST.
    ///
    /// # Errors
    /// 10025.
    pub fn of_stream_list(body: &[u8]) -> Result<Self, ApiError> {
        let mut request = StreamListBody::default();
        optional(body, "server.JSApiStreamListRequest", &mut request)?;
        Ok(Self { offset: request.paged.offset.max(0), subject: request.subject })
    }

    /// The body of CONSUMER.NAMES and CONSUMER.LIST.
    ///
    /// # Errors
    /// 10025.
    pub fn of_consumers(body: &[u8]) -> Result<Self, ApiError> {
        let mut request = ConsumersBody::default();
        optional(body, "server.JSApiConsumersRequest", &mut request)?;
        Ok(Self { offset: request.paged.offset.max(0), subject: String::new() })
    }

    /// Reports whether a stream is listed.
    #[must_use]
    pub fn lists(&self, stream: &StreamConfig) -> bool {
        self.subject.is_empty()
            || stream.subjects.iter().any(|subject| crate::subject::collide(&self.subject, subject))
    }
}

/// Bodies that are no object and no list are ignored, as if they were empty.
fn optional<T: crate::json::Decode>(
    body: &[u8],
    go_type: &'static str,
    request: &mut T,
) -> Result<(), ApiError> {
    if is_object_or_list(body) { strict(body, go_type, request) } else { Ok(()) }
}

/// The body of STREAM.INFO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamInfoRequest {
    /// List the sequences that are missing.
    pub deleted_details: bool,
    /// List subjects that this pattern matches; empty for none.
    pub subjects_filter: String,
    /// How many subjects come before the page.
    pub offset: i64,
}

#[derive(Default)]
struct StreamInfoBody {
    paged: Paged,
    deleted_details: bool,
    subjects_filter: String,
}

fields! {
    StreamInfoBody as "JSApiStreamInfoRequest", with paged as "ApiPagedRequest";
    "deleted_details" "bool" deleted_details
    "subjects_filter" "string" subjects_filter
}

impl StreamInfoRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// 10025.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut request = StreamInfoBody::default();
        optional(body, "server.JSApiStreamInfoRequest", &mut request)?;
        Ok(Self {
            deleted_details: request.deleted_details,
            subjects_filter: request.subjects_filter,
            offset: request.paged.offset.max(0),
        })
    }
}

/// The body of STREAM.PURGE. Without any field all messages go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgeRequest {
    /// Only what is below this sequence; 0 for no such bound.
    pub sequence: u64,
    /// Only subjects that this pattern matches; empty for all.
    pub filter: String,
    /// Keep as many of the last ones.
    pub keep: u64,
}

fields! {
    PurgeRequest as "JSApiStreamPurgeRequest";
    "seq" "uint64" sequence
    "filter" "string" filter
    "keep" "uint64" keep
}

impl PurgeRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// 10025, or 10003 if it has both a sequence and a number of messages to keep.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut request = Self::default();
        optional(body, "server.JSApiStreamPurgeRequest", &mut request)?;
        if request.sequence > 0 && request.keep > 0 {
            return Err(ErrorKind::BadRequest.into());
        }
        Ok(request)
    }

    /// Whether the stream may be purged at all.
    ///
    /// # Errors
    /// 10109 or 10110.
    pub fn permitted(stream: &StreamConfig) -> Result<(), ApiError> {
        if stream.sealed {
            return Err(ErrorKind::StreamSealed.into());
        }
        if stream.deny_purge {
            return Err(ApiError::because(ErrorKind::StreamPurgeFailed, "stream purge not permitted"));
        }
        Ok(())
    }
}

/// The body of STREAM.MSG.DELETE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageDelete {
    /// The sequence.
    pub sequence: u64,
    /// The bytes may stay on disk until the file is rewritten.
    pub no_erase: bool,
}

fields! {
    MessageDelete as "JSApiMsgDeleteRequest";
    "seq" "uint64" sequence
    "no_erase" "bool" no_erase
}

impl MessageDelete {
    /// Reads the body.
    ///
    /// # Errors
    /// 10003 if it is empty, or 10025.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        if is_empty_request(body) {
            return Err(ErrorKind::BadRequest.into());
        }
        let mut request = Self::default();
        strict(body, "server.JSApiMsgDeleteRequest", &mut request)?;
        Ok(request)
    }

    /// Whether messages of the stream may be deleted at all.
    ///
    /// # Errors
    /// 10109 or 10057.
    pub fn permitted(stream: &StreamConfig) -> Result<(), ApiError> {
        if stream.sealed {
            return Err(ErrorKind::StreamSealed.into());
        }
        if stream.deny_delete {
            return Err(ApiError::because(ErrorKind::StreamMsgDeleteFailed, "message delete not permitted"));
        }
        Ok(())
    }
}

/// The body of STREAM.MSG.GET and DIRECT.GET.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageGet {
    /// This sequence, or the first at or after it that matches `next_for`.
    pub sequence: u64,
    /// The last message that this pattern matches.
    pub last_for: String,
    /// The next one.
    pub next_for: String,
    /// As many of them. Only direct.
    pub batch: i64,
    /// At most as many bytes. Only direct.
    pub max_bytes: i64,
    /// The first at or after this time.
    pub start_time: Option<Time>,
    /// The last message of each subject that any of these patterns match. Only direct.
    pub multi_last_for: Vec<String>,
    /// As things stood when this was the last sequence.
    pub up_to_sequence: u64,
    /// As things stood at this time.
    pub up_to_time: Option<Time>,
    /// Without headers.
    pub no_headers: bool,
}

fields! {
    MessageGet as "JSApiMsgGetRequest";
    "seq" "uint64" sequence
    "last_by_subj" "string" last_for
    "next_by_subj" "string" next_for
    "batch" "int" batch
    "max_bytes" "int" max_bytes
    "start_time" "*time.Time" start_time
    "multi_last" "[]string" multi_last_for
    "up_to_seq" "uint64" up_to_sequence
    "up_to_time" "*time.Time" up_to_time
    "no_hdr" "bool" no_headers
}

/// The status with which a direct get is refused. These are the code and the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectRefusal {
    /// 408 Empty Request.
    Empty,
    /// 408 Malformed Request.
    Malformed,
    /// 408 Bad Request.
    Bad,
}

impl DirectRefusal {
    /// The first line of the answer's header block, after `NATS/1.0 `.
    #[must_use]
    pub const fn status(self) -> &'static str {
        match self {
            Self::Empty => "408 Empty Request",
            Self::Malformed => "408 Malformed Request",
            Self::Bad => "408 Bad Request",
        }
    }
}

impl MessageGet {
    /// The body of STREAM.MSG.GET.
    ///
    /// # Errors
    /// 10003 or 10025.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        if is_empty_request(body) {
            return Err(ErrorKind::BadRequest.into());
        }
        let mut request = Self::default();
        strict(body, "server.JSApiMsgGetRequest", &mut request)?;
        let batched = request.batch > 0 || request.max_bytes > 0;
        let says_nothing = request.sequence == 0
            && request.last_for.is_empty()
            && request.next_for.is_empty()
            && request.start_time.is_none();
        if batched || says_nothing || request.contradicts_itself() {
            return Err(ErrorKind::BadRequest.into());
        }
        Ok(request)
    }

    fn contradicts_itself(&self) -> bool {
        let last = !self.last_for.is_empty();
        // A sequence, a time and a last subject exclude each other.
        let starts = [self.sequence > 0, self.start_time.is_some(), last];
        starts.into_iter().filter(|is_set| *is_set).count() > 1 || (last && !self.next_for.is_empty())
    }

    /// The body of DIRECT.GET.
    ///
    /// # Errors
    /// The status of the answer.
    pub fn parse_direct(body: &[u8]) -> Result<Self, DirectRefusal> {
        if body.is_empty() {
            return Err(DirectRefusal::Empty);
        }
        let mut request = Self::default();
        lenient(body, "server.JSApiMsgGetRequest", &mut request).map_err(|_| DirectRefusal::Malformed)?;
        let (last, multi) = (!request.last_for.is_empty(), !request.multi_last_for.is_empty());
        let next = !request.next_for.is_empty();
        if request.sequence == 0 && !last && !next && !multi && request.start_time.is_none() {
            return Err(DirectRefusal::Empty);
        }
        if request.contradicts_itself()
            || (last && request.batch > 0)
            || (multi && (last || next))
            || (request.up_to_sequence > 0 && request.up_to_time.is_some())
        {
            return Err(DirectRefusal::Bad);
        }
        Ok(request)
    }

    /// The body of DIRECT.GET with a subject, which may only say `no_hdr` and `max_bytes`.
    ///
    /// # Errors
    /// The status of the answer.
    pub fn parse_direct_last(subject: &str, body: &[u8]) -> Result<Self, DirectRefusal> {
        let mut request = Self::default();
        if !body.is_empty() {
            lenient(body, "server.JSApiMsgGetRequest", &mut request).map_err(|_| DirectRefusal::Malformed)?;
        }
        let allowed =
            Self { max_bytes: request.max_bytes, no_headers: request.no_headers, ..Self::default() };
        if request != allowed {
            return Err(DirectRefusal::Bad);
        }
        Ok(Self { last_for: subject.to_owned(), ..request })
    }
}

/// The body of CONSUMER.PAUSE: until when. Go's zero time, or one that is past, resumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseRequest {
    /// Until when.
    pub until: Time,
}

fields! {
    PauseRequest as "JSApiConsumerPauseRequest";
    "pause_until" "time.Time" until
}

impl PauseRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// 10025.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut request = Self::default();
        optional(body, "server.JSApiConsumerPauseRequest", &mut request)?;
        Ok(Self { until: request.until.in_utc() })
    }
}

#[derive(Default)]
struct UnpinBody {
    group: String,
}

fields! {
    UnpinBody as "JSApiConsumerUnpinRequest";
    "group" "string" group
}

/// The body of CONSUMER.UNPIN: the name of a group.
///
/// # Errors
/// 10025 or 10162.
pub fn unpin_group(body: &[u8]) -> Result<String, ApiError> {
    let mut request = UnpinBody::default();
    lenient(body, "server.JSApiConsumerUnpinRequest", &mut request)?;
    if request.group.is_empty() {
        return Err(ApiError::because(ErrorKind::InvalidJson, "consumer group not specified"));
    }
    if !is_group_name(&request.group) {
        return Err(ErrorKind::ConsumerInvalidGroupName.into());
    }
    Ok(request.group)
}

#[derive(Default)]
struct ResetBody {
    sequence: u64,
}

fields! {
    ResetBody as "JSApiConsumerResetRequest";
    "seq" "uint64" sequence
}

/// The body of CONSUMER.RESET: the sequence; 0 for what follows the acknowledged ones.
///
/// # Errors
/// 10025.
pub fn reset_sequence(body: &[u8]) -> Result<u64, ApiError> {
    let mut request = ResetBody::default();
    if !body.is_empty() {
        lenient(body, "server.JSApiConsumerResetRequest", &mut request)?;
    }
    Ok(request.sequence)
}

/// The body of STREAM.SNAPSHOT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// Where the chunks go.
    pub deliver_subject: String,
    /// Without consumers.
    pub no_consumers: bool,
    /// Bytes of a chunk; 0 for the default.
    pub chunk_size: i64,
    /// Bytes that may be on their way; 0 for the default.
    pub window_size: i64,
    /// Look at the checksums of all messages first.
    pub check_messages: bool,
}

fields! {
    SnapshotRequest as "JSApiStreamSnapshotRequest";
    "deliver_subject" "string" deliver_subject
    "no_consumers" "bool" no_consumers
    "chunk_size" "int" chunk_size
    "window_size" "int" window_size
    "jsck" "bool" check_messages
}

impl SnapshotRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// 10003, 10015 or 10025.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        if is_empty_request(body) {
            return Err(ErrorKind::BadRequest.into());
        }
        let mut request = Self::default();
        strict(body, "server.JSApiStreamSnapshotRequest", &mut request)?;
        if !crate::subject::is_valid(&request.deliver_subject) {
            return Err(ErrorKind::SnapshotDeliverSubjectInvalid.into());
        }
        Ok(request)
    }
}

#[derive(Default)]
struct StepDownBody {
    placement: Option<Placement>,
}

fields! {
    StepDownBody as "JSApiLeaderStepdownRequest";
    "placement" "*server.Placement" placement
}

/// The body of requests that a leader step down: which one is wished for.
///
/// # Errors
/// 10025.
pub fn step_down(body: &[u8]) -> Result<Option<Placement>, ApiError> {
    let mut request = StepDownBody::default();
    optional(body, "server.JSApiLeaderStepdownRequest", &mut request)?;
    Ok(request.placement)
}
