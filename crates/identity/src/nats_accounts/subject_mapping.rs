//! A mapping of the subjects of one pattern to those of another, in both directions.
//!
//! Each `*` of the source stands exactly once in the destination, as `*` (the next one that is not named) or
//! as `$1`, `$2`... (`{{wildcard(1)}}` means the same). Both end in `>`, or neither does. Such a mapping can
//! be undone.

use super::pattern::{self, words};

/// What is wrong with a mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// Not a pattern.
    #[error("{text:?} is not a valid subject")]
    Subject {
        /// The text.
        text: String,
    },
    /// The destination names a `*` that the source does not have.
    #[error("{destination:?} names wildcard {number}, but {source_pattern:?} has only {count}")]
    NoSuchWildcard {
        /// The source.
        source_pattern: String,
        /// The destination.
        destination: String,
        /// The number of the wildcard, from 1.
        number: usize,
        /// How many there are.
        count: usize,
    },
    /// The wildcards do not correspond one to one.
    #[error("each wildcard of {source_pattern:?} must stand exactly once in {destination:?}")]
    NotOneToOne {
        /// The source.
        source_pattern: String,
        /// The destination.
        destination: String,
    },
    /// A function of nats-server other than `wildcard`.
    #[error("{word:?}: only $1 and {{{{wildcard(1)}}}} are supported in a mapping between accounts")]
    Function {
        /// The word.
        word: String,
    },
}

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectMapping {
    source: Box<[u8]>,
    /// With `*` in place of `$1`.
    destination: Box<[u8]>,
    /// For each `*` of the destination, the index of that of the source.
    order: Box<[usize]>,
}

impl SubjectMapping {
    /// Makes a mapping. The destination may have `$1` and `{{wildcard(1)}}`.
    ///
    /// # Errors
    /// One of the texts is not a pattern, or the wildcards do not correspond.
    pub fn new(source: &str, destination: &str) -> Result<Self, MappingError> {
        let not_one_to_one = || MappingError::NotOneToOne {
            source_pattern: source.to_owned(),
            destination: destination.to_owned(),
        };
        let count = source.split('.').filter(|word| *word == "*").count();
        let mut named = Vec::new();
        let mut plain = Vec::new();
        for word in destination.split('.') {
            let number = reference(word)?;
            if word == "*" || number.is_some() {
                named.push(number);
                plain.push("*");
            } else {
                plain.push(word);
            }
        }
        let plain = plain.join(".");
        for text in [source, &plain] {
            if !pattern::is_valid(text) {
                return Err(MappingError::Subject { text: text.to_owned() });
            }
        }
        let mut is_used = vec![false; count];
        for number in named.iter().flatten() {
            let used = number.checked_sub(1).and_then(|at| is_used.get_mut(at));
            let Some(used) = used else {
                let (source_pattern, destination) = (source.to_owned(), destination.to_owned());
                return Err(MappingError::NoSuchWildcard {
                    source_pattern,
                    destination,
                    number: *number,
                    count,
                });
            };
            if std::mem::replace(used, true) {
                return Err(not_one_to_one());
            }
        }
        let mut unused = is_used.iter().enumerate().filter(|(_, used)| !**used).map(|(at, _)| at);
        let order = named.iter().map(|number| number.map(|number| number - 1).or_else(|| unused.next()));
        let order = order.collect::<Option<Box<[usize]>>>().ok_or_else(not_one_to_one)?;
        let ends_open = |text: &str| text.split('.').next_back() == Some(">");
        if order.len() != count || ends_open(source) != ends_open(&plain) {
            return Err(not_one_to_one());
        }
        let (source, destination) = (source.as_bytes().into(), plain.into_bytes().into());
        Ok(Self { source, destination, order })
    }

    /// Returns the mapping back.
    #[must_use]
    pub(crate) fn inverse(self) -> Self {
        let mut order = vec![0; self.order.len()].into_boxed_slice();
        for (destination, source) in self.order.iter().enumerate() {
            // The order is a permutation, so each place is set once.
            if let Some(place) = order.get_mut(*source) {
                *place = destination;
            }
        }
        Self { source: self.destination, destination: self.source, order }
    }

    /// Returns the source pattern.
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// Returns the destination as a pattern, with `*` in place of `$1`.
    pub(crate) fn destination(&self) -> &[u8] {
        &self.destination
    }

    /// Maps a subject, or the pattern of a subscription. `None` if the source does not cover it.
    pub fn map(&self, subject: &[u8]) -> Option<Vec<u8>> {
        let found = bound(&self.source, subject)?;
        Some(fill(
            &self.destination,
            |index| self.order.get(index).and_then(|at| found.words.get(*at).copied()),
            found.rest,
        ))
    }

    /// Maps a subject, or the pattern of a subscription, back. `None` if the destination does not cover it.
    pub(crate) fn unmap(&self, subject: &[u8]) -> Option<Vec<u8>> {
        let found = bound(&self.destination, subject)?;
        let word_of = |index| {
            let at = self.order.iter().position(|at| *at == index)?;
            found.words.get(at).copied()
        };
        Some(fill(&self.source, word_of, found.rest))
    }
}

/// Returns the number of `$1` or `{{wildcard(1)}}`. `None` if the word is neither.
fn reference(word: &str) -> Result<Option<usize>, MappingError> {
    if let Some(digits) = word.strip_prefix('$') {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        return Ok(is_number.then(|| digits.parse().unwrap_or(usize::MAX)));
    }
    let Some(inner) = word.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) else {
        return Ok(None);
    };
    let digits = inner.trim().strip_prefix("wildcard(").and_then(|rest| rest.strip_suffix(')'));
    let number = digits.and_then(|digits| digits.trim().parse().ok());
    number.map(Some).ok_or_else(|| MappingError::Function { word: word.to_owned() })
}

/// What the wildcards of a pattern stand for.
struct Bound<'a> {
    words: Vec<&'a [u8]>,
    /// What `>` stands for.
    rest: Vec<&'a [u8]>,
}

/// Matches a subject, or a pattern that is not wider. `None` if it does not match.
fn bound<'a>(pattern: &[u8], subject: &'a [u8]) -> Option<Bound<'a>> {
    let mut found = Bound { words: Vec::new(), rest: Vec::new() };
    let mut subject = words(subject);
    for wanted in words(pattern) {
        let word = subject.next().filter(|word| !word.is_empty())?;
        match wanted {
            b">" => {
                found.rest = std::iter::once(word).chain(subject).collect();
                return found.rest.iter().all(|word| !word.is_empty()).then_some(found);
            }
            _ if word == b">" => return None,
            b"*" => found.words.push(word),
            wanted if wanted == word => {}
            _ => return None,
        }
    }
    subject.next().is_none().then_some(found)
}

/// Replaces the wildcards of a pattern.
fn fill<'a>(pattern: &'a [u8], word_of: impl Fn(usize) -> Option<&'a [u8]>, rest: Vec<&'a [u8]>) -> Vec<u8> {
    let mut filled: Vec<&[u8]> = Vec::new();
    let mut index = 0;
    for word in words(pattern) {
        match word {
            b"*" => {
                filled.push(word_of(index).unwrap_or(b"*"));
                index += 1;
            }
            b">" => filled.extend(rest.iter().copied()),
            word => filled.push(word),
        }
    }
    filled.join(&b'.')
}
