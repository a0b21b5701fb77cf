//! All streams, as the metadata have them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tailrace_jetstream::error::ApiError;
use tailrace_jetstream::stream::{OtherStreams, StreamConfig};
use tailrace_metadata::{MetadataImage, TopicImage};
use tailrace_types::TopicId;

use super::stream::Stream;

/// The streams of one moment, by name.
#[derive(Default)]
pub(super) struct Streams(BTreeMap<String, Arc<Stream>>);

/// The streams of the newest metadata that were asked about. Configurations are read once for each change of
/// their topic.
#[derive(Default)]
pub(super) struct StreamTable {
    known: ArcSwapOption<Known>,
    following: Mutex<()>,
}

/// A topic, and the stream that it is.
type OfTopic = (Arc<TopicImage>, Option<Arc<Stream>>);

struct Known {
    image: Weak<MetadataImage>,
    topics: HashMap<TopicId, OfTopic>,
    streams: Arc<Streams>,
}

impl StreamTable {
    /// The streams of these metadata.
    pub(super) fn of(&self, image: &Arc<MetadataImage>) -> Arc<Streams> {
        let is_of = |known: &Known| std::ptr::eq(known.image.as_ptr(), Arc::as_ptr(image));
        if let Some(known) = self.known.load().as_ref().filter(|known| is_of(known)) {
            return Arc::clone(&known.streams);
        }
        let _following = self.following.lock();
        let before = self.known.load_full();
        if let Some(known) = before.as_ref().filter(|known| is_of(known)) {
            return Arc::clone(&known.streams);
        }
        let known = Arc::new(Known::follow(before.as_deref(), image));
        let streams = Arc::clone(&known.streams);
        self.known.store(Some(known));
        streams
    }
}

impl Known {
    fn follow(before: Option<&Self>, image: &Arc<MetadataImage>) -> Self {
        let of = |topic: &Arc<TopicImage>| match before.and_then(|before| before.topics.get(&topic.id)) {
            Some((known, stream)) if Arc::ptr_eq(known, topic) => stream.clone(),
            _ => Stream::of_topic(topic),
        };
        let topics: HashMap<_, OfTopic> =
            image.topics().map(|topic| (topic.id, (Arc::clone(topic), of(topic)))).collect();
        let streams = topics.values().filter_map(|(_, stream)| stream.as_ref());
        let streams = streams.map(|stream| (stream.name().to_owned(), Arc::clone(stream))).collect();
        Self { image: Arc::downgrade(image), topics, streams: Arc::new(Streams(streams)) }
    }
}

impl Streams {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<Stream>> {
        self.0.get(name)
    }

    /// All of them, sorted by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.0.values()
    }
}

impl OtherStreams for Streams {
    fn config(&self, name: &str) -> Option<&StreamConfig> {
        self.get(name).map(|stream| &stream.config)
    }

    fn any_subjects(&self, except: Option<&str>, found: &mut dyn FnMut(&[String]) -> bool) -> bool {
        let mut others = self.iter().filter(|stream| Some(stream.name()) != except);
        others.any(|stream| found(&stream.config.subjects))
    }

    fn count(&self, except: &str) -> usize {
        self.iter().filter(|stream| stream.name() != except).count()
    }

    fn reserve(&self, _: &StreamConfig, _: Option<&StreamConfig>) -> Result<(), ApiError> {
        Ok(())
    }
}
