//! An index of the topics by the NATS subjects of their records.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use tailrace_config::TopicConfig;
use tailrace_identity::acl::{TopicSubjects, is_silent, subject_of_topic};
use tailrace_metadata::MetadataImage;
use tailrace_subjects::{Dialect, Limits, Pattern, PatternWord, TextError, TupleSpace};
use tailrace_types::TopicName;

/// A topic, and the patterns of all subjects that its records may have.
struct Entry {
    name: TopicName,
    /// The settings that the patterns were made from.
    config: Arc<TopicConfig>,
    patterns: Vec<Pattern>,
}

/// The topics of one state of the metadata, by subject.
pub(super) struct TopicIndex {
    /// Changes with the topics.
    version: u64,
    topics: Vec<Entry>,
    by_pattern: TupleSpace<usize>,
    /// Topics by the first words of their patterns. All of those start with a literal word.
    by_first_word: HashMap<Box<[u8]>, Vec<usize>>,
    /// Topics with a pattern that the table did not take. They count as topics of every subject, which only
    /// takes permissions away.
    everywhere: Vec<usize>,
}

/// An index, and the metadata it was last found to be right for. A weak reference, so that old metadata are
/// not kept in memory, and their address is not used again all the same.
pub(super) struct Indexed {
    image: Weak<MetadataImage>,
    pub(super) index: Arc<TopicIndex>,
}

impl Indexed {
    /// The index of no topics.
    pub(super) fn empty() -> Self {
        Self { image: Weak::new(), index: Arc::new(TopicIndex::new(0, Vec::new())) }
    }

    /// Reports whether the index is the one of these metadata. Costs one comparison.
    pub(super) fn is_of(&self, image: &Arc<MetadataImage>) -> bool {
        std::ptr::eq(self.image.as_ptr(), Arc::as_ptr(image))
    }

    /// Returns the index of other metadata. It is the same one if no topic and no binding has changed.
    pub(super) fn follow(&self, image: &Arc<MetadataImage>) -> Self {
        let index = match self.index.is_right_for(image) {
            true => Arc::clone(&self.index),
            false => {
                let topics = image.topics().map(|topic| Entry::new(&topic.name, &topic.config)).collect();
                Arc::new(TopicIndex::new(self.index.version + 1, topics))
            }
        };
        Self { image: Arc::downgrade(image), index }
    }
}

/// The widest limits, so that no subject of a client is too long. Routers accept any bytes.
fn limits() -> Limits {
    Limits { any_bytes: true, ..Limits::widest() }
}

impl Entry {
    fn new(name: &TopicName, config: &Arc<TopicConfig>) -> Self {
        let spoken = subject_of_topic(name.as_str());
        let implied = [spoken.to_string(), format!("{spoken}.>")];
        let implied = implied.iter().filter(|_| !is_silent(name.as_str()));
        let implied = implied.filter_map(|text| Pattern::parse(Dialect::Nats, text, &limits()).ok());
        let patterns = config.tailrace_subjects.patterns().iter().cloned().chain(implied).collect();
        Self { name: name.clone(), config: Arc::clone(config), patterns }
    }

    fn subjects(&self) -> TopicSubjects<'_, Pattern> {
        TopicSubjects { name: self.name.as_str(), bindings: &self.patterns }
    }
}

impl TopicIndex {
    fn new(version: u64, topics: Vec<Entry>) -> Self {
        let by_pattern = TupleSpace::with_limits(Dialect::Nats, limits());
        let mut by_first_word: HashMap<Box<[u8]>, Vec<usize>> = HashMap::new();
        let mut everywhere = Vec::new();
        for (number, topic) in topics.iter().enumerate() {
            for pattern in &topic.patterns {
                match by_pattern.subscribe(pattern, number) {
                    Ok(subscription) => subscription.forget(),
                    Err(error) => {
                        tracing::error!(topic = %topic.name, %pattern, %error, "a subject cannot be indexed");
                        everywhere.push(number);
                    }
                }
                match pattern.words().next() {
                    Some(PatternWord::Literal(word)) => {
                        let numbers = by_first_word.entry(word.into()).or_default();
                        if numbers.last() != Some(&number) {
                            numbers.push(number);
                        }
                    }
                    // No pattern of a topic is one of these.
                    _ => everywhere.push(number),
                }
            }
        }
        everywhere.dedup();
        Self { version, topics, by_pattern, by_first_word, everywhere }
    }

    /// Returns a number that changes with the topics and their bindings.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    fn is_right_for(&self, image: &MetadataImage) -> bool {
        let same = |(known, topic): (&Entry, &Arc<tailrace_metadata::TopicImage>)| {
            Arc::ptr_eq(&known.config, &topic.config) && known.name == topic.name
        };
        self.topics.len() == image.topics().len() && self.topics.iter().zip(image.topics()).all(same)
    }

    /// Returns the topics that a message on this subject may belong to. `*` and `>` in it are words like any
    /// other.
    ///
    /// # Errors
    /// It is not a subject, so no topic has it and no router delivers it.
    pub(super) fn of_subject(&self, subject: &[u8]) -> Result<Vec<TopicSubjects<'_, Pattern>>, TextError> {
        Ok(self.numbers_of(subject)?.into_iter().map(|number| self.topics[number].subjects()).collect())
    }

    /// Returns the topics with subjects that this pattern matches too. Takes time for each topic with the
    /// same first word, or for all topics if the pattern starts with a wildcard.
    ///
    /// # Errors
    /// It is not a pattern.
    pub(super) fn of_pattern(
        &self,
        text: &[u8],
    ) -> Result<impl Iterator<Item = TopicSubjects<'_, Pattern>> + use<'_>, TextError> {
        let pattern = Pattern::parse(Dialect::Nats, text, &limits())?;
        let numbers: Vec<usize> = match pattern.words().next() {
            Some(PatternWord::Literal(word)) => {
                let known = self.by_first_word.get(word).map(Vec::as_slice).unwrap_or_default();
                known.iter().chain(&self.everywhere).copied().collect()
            }
            _ => (0..self.topics.len()).collect(),
        };
        let topics = numbers.into_iter().map(|number| &self.topics[number]);
        let overlapping = topics.filter(move |topic| topic.patterns.iter().any(|own| own.overlaps(&pattern)));
        Ok(overlapping.map(Entry::subjects))
    }

    /// Returns the subjects of what a record with this key replaces, or deletes, in the topics of a subject:
    /// the key itself where it is a subject of the topic, and `TOPIC.KEY` in a compacted topic, where any
    /// other key stands for that subject. A key of which no subject can be made stands for the topic's name
    /// there.
    pub(super) fn replaced<'k>(&self, subject: &[u8], key: &'k [u8]) -> Vec<Cow<'k, [u8]>> {
        let Ok(numbers) = self.numbers_of(subject) else { return Vec::new() };
        let of_key = self.numbers_of(key).unwrap_or_default();
        let replaced = numbers.into_iter().filter_map(|number| {
            let topic = &self.topics[number];
            if of_key.contains(&number) {
                return Some(Cow::Borrowed(key));
            }
            topic.config.cleanup_policy.compact.then(|| {
                let name = subject_of_topic(topic.name.as_str());
                let below = [name.as_bytes(), b".", key].concat();
                let is_subject = self.numbers_of(&below).is_ok_and(|found| found.contains(&number));
                Cow::Owned(if is_subject { below } else { name.as_bytes().to_vec() })
            })
        });
        replaced.collect()
    }

    fn numbers_of(&self, subject: &[u8]) -> Result<BTreeSet<usize>, TextError> {
        let mut numbers: BTreeSet<usize> = self.everywhere.iter().copied().collect();
        self.by_pattern.for_each_match(subject, |number| {
            numbers.insert(*number);
        })?;
        Ok(numbers)
    }
}
