//! What is asked of a stream, and what it answers. All of it goes between nodes as JSON, too.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::text;

/// What is wanted besides the sums.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateTerms {
    /// A page of the subjects that a pattern matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subjects: Option<SubjectsPage>,
    /// The sequences without a message.
    #[serde(default)]
    pub deleted: bool,
}

/// A page of a list of subjects, which is sorted by their bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectsPage {
    /// The pattern.
    pub filter: String,
    /// How many subjects come before the page.
    pub offset: u64,
}

/// What is in a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamState {
    /// Messages.
    pub messages: u64,
    /// Their sizes together, as JetStream counts them.
    pub bytes: u64,
    /// The first message. One above `last_seq` if there is none, and 0 if there never was one.
    pub first_seq: u64,
    /// Its time, in milliseconds since 1970.
    pub first_time_ms: Option<i64>,
    /// The highest sequence that was ever used. Sequences of transaction markers count.
    pub last_seq: u64,
    /// The time of the newest message that was stored, even if it is gone.
    pub last_time_ms: Option<i64>,
    /// Subjects that have messages.
    pub subjects: u64,
    /// Sequences between the first and the last without a message.
    pub deleted: u64,
    /// The page of subjects, each with the number of its messages.
    pub listed: Vec<(String, u64)>,
    /// How many subjects the pattern of the page matches.
    pub listed_total: u64,
    /// Sequences without a message, at most 250,000.
    pub deleted_sequences: Vec<u64>,
    /// Consumers.
    #[serde(default)]
    pub consumers: u64,
}

/// Most sequences without a message that are listed: the first ones.
pub(super) const DELETED_MAX: usize = 250_000;

/// Where a search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum From {
    /// At this sequence.
    Sequence(u64),
    /// At the first message of this time, in milliseconds since 1970, or a later one.
    TimeMs(i64),
}

/// Where a search ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpTo {
    /// With this sequence. The last one if it is above that.
    Sequence(u64),
    /// With the last message before this time, in milliseconds since 1970.
    TimeMs(i64),
}

/// Which messages are wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// The one with this sequence.
    At(u64),
    /// The last one that a pattern matches.
    Last(String),
    /// Those from a point on that a pattern matches. An empty pattern matches everything.
    Next {
        /// The pattern.
        filter: String,
        /// The point.
        from: From,
    },
    /// The last one of each subject that one of the patterns matches, in the order of their sequences.
    LastOfEach {
        /// The patterns.
        filters: Vec<String>,
        /// The lowest sequence.
        from: u64,
        /// A message above this does not count, as if it were not there yet. `None` is the end.
        upto: Option<UpTo>,
        /// If there are more subjects than this, the answer is [`super::StreamFailure::TooManySubjects`].
        subjects_max: Option<u64>,
    },
}

/// Which messages are removed for good, from the first on. To ask twice does no harm: what is stored
/// meanwhile stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeTerms {
    /// Those up to this sequence.
    pub upto: u64,
    /// But as many of the last ones of these stay.
    pub keep: u64,
}

/// Bounds of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadBounds {
    /// Most messages. An answer has at most 4,096.
    pub messages: u64,
    /// Most bytes of subjects, headers and payloads together. The first message comes even if it is larger.
    /// An answer has at most 4 MiB besides the first message.
    pub bytes: u64,
}

/// Most messages of one answer. [`Messages::next`] says where to go on.
pub(super) const MESSAGES_MAX: u64 = 4_096;

/// Most bytes of one answer, if it has more than one message.
pub(super) const MESSAGES_BYTES_MAX: u64 = 4 << 20;

/// A message of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredMessage {
    /// Its sequence.
    pub sequence: u64,
    /// Its time, in milliseconds since 1970.
    pub time_ms: i64,
    /// Its subject.
    #[serde(with = "text")]
    pub subject: Bytes,
    /// Its header block as on the wire, with both line ends. Empty if it has none.
    #[serde(with = "text")]
    pub headers: Bytes,
    /// Its payload.
    #[serde(with = "text")]
    pub payload: Bytes,
}

/// Some messages of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// The messages, by their sequences. Never empty.
    pub messages: Vec<StoredMessage>,
    /// How many more the selection matches behind the last of them. After message number `i`, counted from 0,
    /// it is this and `messages.len() - 1 - i`.
    pub pending: u64,
    /// The sequence at which the selection goes on. `None` if there are no more.
    pub next: Option<u64>,
    /// The sequence up to which the answer is complete: the end of the selection, or of the stream.
    pub upto: u64,
}
