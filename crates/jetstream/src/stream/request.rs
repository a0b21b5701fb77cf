//! STREAM.CREATE and STREAM.UPDATE, from the body of a request to the configuration that takes effect.

use super::StreamConfig;
use super::metadata::copy_required_level;
use crate::consumer_config::ConsumerConfig;
use crate::error::{ApiError, ErrorKind};
use crate::go::Nanos;
use crate::json::{fields, strict};
use crate::subject::collide;

/// What the check of a stream needs to know of its account.
pub trait OtherStreams {
    /// The configuration of the stream of this name.
    fn config(&self, name: &str) -> Option<&StreamConfig>;

    /// Calls back for the subjects of each stream but the named one, until that returns true; returns
    /// whether it did.
    fn any_subjects(&self, except: Option<&str>, found: &mut dyn FnMut(&[String]) -> bool) -> bool;

    /// How many streams there are, but for the named one.
    fn count(&self, except: &str) -> usize;

    /// Whether what the configuration promises to keep still fits; `old` is the one that it replaces.
    ///
    /// # Errors
    /// 10047 or 10028 if it does not.
    fn reserve(&self, new: &StreamConfig, old: Option<&StreamConfig>) -> Result<(), ApiError>;
}

/// The bounds that the server and the account set.
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// There is one server only, so that there can be no replicas.
    pub is_single: bool,
    /// The most streams of the account.
    pub streams_max: Option<usize>,
    /// The longest window in which duplicates are found.
    pub duplicates_max: Option<Nanos>,
    /// Streams must say how many bytes they hold.
    pub needs_max_bytes: bool,
    /// The most bytes of a stream in a file.
    pub file_bytes_max: Option<i64>,
    /// The most bytes of a stream in memory.
    pub memory_bytes_max: Option<i64>,
}

impl StreamLimits {
    /// No limits but that of a single server.
    #[must_use]
    pub fn none(is_single: bool) -> Self {
        Self {
            is_single,
            streams_max: None,
            duplicates_max: None,
            needs_max_bytes: false,
            file_bytes_max: None,
            memory_bytes_max: None,
        }
    }
}

#[derive(Default)]
struct StreamRequest {
    config: StreamConfig,
    pedantic: bool,
}

fields! {
    StreamRequest as "StreamConfigRequest", with config as "StreamConfig";
    "pedantic" "bool" pedantic
}

/// What becomes of a request to create a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Creation {
    /// It is to be created so.
    New(Box<StreamConfig>),
    /// It is there already, with the same configuration.
    Same,
}

/// Judges STREAM.CREATE of the stream that the subject names.
///
/// # Errors
/// The error of the answer.
pub fn create(
    name: &str,
    body: &[u8],
    others: &dyn OtherStreams,
    limits: &StreamLimits,
) -> Result<Creation, ApiError> {
    let mut request = read(body)?;
    request.config.set_required_level();
    named(name, &request.config.name)?;
    if name.contains(['\\', '/']) {
        return Err(ErrorKind::StreamNameContainsPathSeparators.into());
    }
    let rule = |text: &str| Err(ApiError::because(ErrorKind::StreamInvalidConfig, text));
    if request.config.sealed {
        return rule("stream configuration for create can not be sealed");
    }
    if request.config.mirror_direct && request.config.mirror.is_none() {
        return rule("stream has no mirror but does have mirror direct");
    }
    if limits.streams_max.is_some_and(|most| others.count(name) >= most) {
        return Err(ErrorKind::MaximumStreamsLimit.into());
    }
    others.reserve(&request.config, None)?;
    let mut config = request.config.checked(others, limits, request.pedantic)?;
    single(&config, limits)?;
    if let Some(existing) = others.config(&config.name) {
        copy_required_level(&mut config.metadata, &existing.metadata);
        let same = config == *existing;
        return if same { Ok(Creation::Same) } else { Err(ErrorKind::StreamNameExist.into()) };
    }
    config.check_filters()?;
    not_overlapping(&config, None, others)?;
    config.check_transforms_made()?;
    Ok(Creation::New(Box::new(config)))
}

/// Judges STREAM.UPDATE of the stream that the subject names. Returns the configuration that takes effect.
/// `consumers` are those of the stream.
///
/// # Errors
/// The error of the answer.
pub fn update<'a>(
    name: &str,
    body: &[u8],
    others: &dyn OtherStreams,
    limits: &StreamLimits,
    consumers: impl Iterator<Item = (&'a str, &'a ConsumerConfig)>,
) -> Result<StreamConfig, ApiError> {
    let request = read(body)?;
    let mut config = request.config.checked(others, limits, request.pedantic)?;
    named(name, &config.name)?;
    let Some(old) = others.config(name) else { return Err(ErrorKind::StreamNotFound.into()) };
    config.set_required_level();
    let config = config.checked_against(old, others, limits, request.pedantic)?;
    others.reserve(&config, Some(old))?;
    config.check_consumers(old, consumers)?;
    not_overlapping(&config, Some(name), others)?;
    Ok(config)
}

fn read(body: &[u8]) -> Result<StreamRequest, ApiError> {
    let mut request = StreamRequest::default();
    strict(body, "server.StreamConfigRequest", &mut request)?;
    Ok(request)
}

fn named(subject_name: &str, name: &str) -> Result<(), ApiError> {
    if subject_name == name { Ok(()) } else { Err(ErrorKind::StreamMismatch.into()) }
}

pub(super) fn single(config: &StreamConfig, limits: &StreamLimits) -> Result<(), ApiError> {
    if limits.is_single && config.num_replicas > 1 {
        return Err(ErrorKind::StreamReplicasNotSupported.into());
    }
    Ok(())
}

fn not_overlapping(
    config: &StreamConfig,
    except: Option<&str>,
    others: &dyn OtherStreams,
) -> Result<(), ApiError> {
    let overlaps = |subjects: &[String]| {
        subjects.iter().any(|theirs| config.subjects.iter().any(|ours| collide(theirs, ours)))
    };
    if !config.subjects.is_empty() && others.any_subjects(except, &mut { overlaps }) {
        return Err(ErrorKind::StreamSubjectOverlap.into());
    }
    Ok(())
}
