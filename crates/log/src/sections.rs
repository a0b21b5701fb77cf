//! State derived from a log and saved with its checkpoints, so that a start need not read the whole log:
//! named sections, each with its own format and version. Their content is opaque here.
//!
//! A section holds only what can be derived from the log again. So a build may drop a section that it does
//! not know, or one of a newer version, and its next checkpoint lacks it. State that cannot be derived again
//! needs a new version of the file, which older builds refuse.

use bytes::Bytes;

/// The most sections of one checkpoint.
pub(crate) const SECTIONS_MAX: usize = 64;

/// The longest name of a section in bytes.
pub(crate) const SECTION_NAME_BYTES_MAX: usize = 24;

/// The section with the state of producers, which all versions of the file have.
pub const PRODUCERS: &str = "producers";

/// One section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// 1 to [`SECTION_NAME_BYTES_MAX`] bytes: lower-case letters, digits, `.` and `-`.
    pub(crate) name: String,
    /// The version of its format.
    pub(crate) version: u32,
    /// Its content.
    pub(crate) bytes: Bytes,
}

impl Section {
    /// The version of its format.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Its content.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// Sections as of one offset: the state after all batches below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections(Vec<Section>);

impl Sections {
    /// Creates sections with a single one.
    ///
    /// # Panics
    /// See [`Sections::with`].
    pub fn of(name: &str, version: u32, bytes: impl Into<Bytes>) -> Self {
        Self::default().with(name, version, bytes)
    }

    /// Adds a section.
    ///
    /// # Panics
    /// If the name is invalid or already present, or if there are `SECTIONS_MAX` sections already.
    #[must_use]
    pub fn with(mut self, name: &str, version: u32, bytes: impl Into<Bytes>) -> Self {
        assert!(is_name(name.as_bytes()), "{name:?} names no section");
        assert!(self.get(name).is_none(), "section {name} exists already");
        assert!(self.0.len() < SECTIONS_MAX, "more than {SECTIONS_MAX} sections");
        self.0.push(Section { name: name.to_owned(), version, bytes: bytes.into() });
        self
    }

    /// Returns the section with that name.
    pub fn get(&self, name: &str) -> Option<&Section> {
        self.0.iter().find(|section| section.name == name)
    }

    /// Total bytes of all sections, without the file's overhead. A log takes at most
    /// [`SNAPSHOT_BYTES_MAX`](crate::SNAPSHOT_BYTES_MAX).
    pub fn total_bytes(&self) -> usize {
        self.0.iter().map(|section| section.bytes.len()).sum()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Section> {
        self.0.iter()
    }
}

pub(crate) fn is_name(name: &[u8]) -> bool {
    let is_legal = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
    (1..=SECTION_NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(is_legal)
}
