//! The algorithms as the benchmark calls them. Each is a [`Matcher`]; some can be asked in more ways than one
//! subject at a time.

use tailrace_subjects::{Batch, Cache, Dialect, Limits, Matcher, Pattern, TupleSpace};

use crate::classic::{CsTrie, InvertedBitmap, Naive, OptimizedBitmap, Trie};
use crate::workload::Texts;

/// Entries of the per-thread cache: as many subjects as nats-server's shared cache holds.
pub(crate) const CACHE_ENTRIES: usize = 1_024;
/// The largest group of subjects that are looked up together.
pub(crate) const GROUP_MAX: usize = 64;

/// A way of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One subject at a time.
    Plain,
    /// Groups of this many subjects.
    Batch(usize),
    /// One at a time, through a cache of exact subjects that belongs to the thread.
    Cached,
}

impl Way {
    /// The name of the system in this way.
    #[must_use]
    pub fn name(self, system: &str) -> String {
        match self {
            Self::Plain => system.to_owned(),
            Self::Batch(group) => format!("{system}-batch{group}"),
            Self::Cached => format!("{system}-cache"),
        }
    }

    /// The number of subjects per call.
    #[must_use]
    pub(crate) fn group(self) -> usize {
        match self {
            Self::Batch(group) => group,
            Self::Plain | Self::Cached => GROUP_MAX,
        }
    }
}

/// A matcher that the benchmark can build and ask.
pub trait System: Matcher<u64, Subscription: Send> + Sized + 'static {
    /// Its name on the command line and in the output.
    const NAME: &'static str;
    /// The ways in which it can be asked.
    const WAYS: &'static [Way];
    /// A thread's state for batches and for its cache.
    type Own: Send;

    /// Creates an empty matcher. `topics` are all subjects that will be looked up, which one algorithm must
    /// know in advance.
    fn build(topics: &Texts) -> Self;

    /// Creates a thread's state.
    fn own() -> Self::Own;

    /// Looks up the subjects in this way and passes each result to `each`.
    fn ask(&self, own: &mut Self::Own, way: Way, subjects: &[&[u8]], each: impl FnMut(&[u64]));
}

/// Parses and subscribes: the server's work for the text of a new subscription.
pub fn subscribe<S: System>(matcher: &S, text: &[u8], value: u64) -> S::Subscription {
    let pattern = Pattern::parse(Dialect::Nats, text, &Limits::default()).expect("patterns are well formed");
    matcher.subscribe(&pattern, value).expect("the tables have room")
}

/// One subject at a time, into one buffer.
fn ask_plainly<M: Matcher<u64>>(
    matcher: &M,
    found: &mut Vec<u64>,
    subjects: &[&[u8]],
    mut each: impl FnMut(&[u64]),
) {
    for subject in subjects {
        matcher.matches(subject, found).expect("subjects are well formed");
        each(found);
    }
}

/// The table by shapes, asked in every way that it supports.
pub type Tailrace = TupleSpace<u64>;

/// A thread's memory for one way of asking [`Tailrace`].
pub struct TailraceOwn {
    found: Vec<u64>,
    batch: Batch<u64>,
    cache: Cache<u64>,
}

impl System for Tailrace {
    const NAME: &'static str = "tailrace";
    const WAYS: &'static [Way] = &[Way::Plain, Way::Batch(16), Way::Batch(64), Way::Cached];
    type Own = TailraceOwn;

    fn build(_: &Texts) -> Self {
        Self::new(Dialect::Nats)
    }

    fn own() -> Self::Own {
        TailraceOwn { found: Vec::new(), batch: Batch::default(), cache: Cache::new(CACHE_ENTRIES) }
    }

    fn ask(&self, own: &mut Self::Own, way: Way, subjects: &[&[u8]], mut each: impl FnMut(&[u64])) {
        match way {
            Way::Plain => ask_plainly(self, &mut own.found, subjects, each),
            Way::Batch(_) => {
                self.matches_many(subjects, &mut own.batch);
                for index in 0..subjects.len() {
                    each(own.batch.get(index).expect("subjects are well formed"));
                }
            }
            Way::Cached => {
                for subject in subjects {
                    each(own.cache.matches(self, subject).expect("subjects are well formed"));
                }
            }
        }
    }
}

/// The classical algorithms support one way only.
macro_rules! classic {
    ($name:literal, $algorithm:ident, $topics:ident => $build:expr) => {
        impl System for $algorithm<u64> {
            const NAME: &'static str = $name;
            const WAYS: &'static [Way] = &[Way::Plain];
            type Own = Vec<u64>;

            fn build($topics: &Texts) -> Self {
                $build
            }

            fn own() -> Self::Own {
                Vec::new()
            }

            fn ask(&self, own: &mut Self::Own, _: Way, subjects: &[&[u8]], each: impl FnMut(&[u64])) {
                ask_plainly(self, own, subjects, each);
            }
        }
    };
}

classic!("naive", Naive, _topics => Self::new(Dialect::Nats));
classic!("inverted-bitmap", InvertedBitmap, topics => {
    Self::new(Dialect::Nats, topics.iter()).expect("subjects are well formed")
});
classic!("optimized-bitmap", OptimizedBitmap, _topics => Self::new(Dialect::Nats));
classic!("trie", Trie, _topics => Self::new(Dialect::Nats));
classic!("cs-trie", CsTrie, _topics => Self::new(Dialect::Nats));

#[cfg(test)]
pub(crate) mod naive {
    //! A minimal system, for the tests of the worker.

    use std::sync::Mutex;

    use tailrace_subjects::{PatternWord, Subject, SubscribeError, TextError};

    use super::*;

    pub(crate) struct List(Mutex<Vec<(u64, Pattern)>>);

    impl Matcher<u64> for List {
        type Subscription = u64;
        fn name(&self) -> &'static str {
            "list"
        }
        fn dialect(&self) -> Dialect {
            Dialect::Nats
        }
        fn subscribe(&self, pattern: &Pattern, value: u64) -> Result<u64, SubscribeError> {
            self.0.lock().unwrap().push((value, pattern.clone()));
            Ok(value)
        }
        fn unsubscribe(&self, subscription: u64) -> bool {
            let mut list = self.0.lock().unwrap();
            let found = list.iter().position(|(value, _)| *value == subscription);
            found.map(|index| list.swap_remove(index)).is_some()
        }
        fn matches(&self, subject: &[u8], found: &mut Vec<u64>) -> Result<(), TextError> {
            found.clear();
            let subject = Subject::parse(Dialect::Nats, subject, &Limits::default())?;
            let hit = |pattern: &Pattern| {
                pattern.words().count() == subject.words().count()
                    && pattern.words().zip(subject.words()).all(|(mine, word)| match mine {
                        PatternWord::Literal(mine) => mine == word,
                        PatternWord::One | PatternWord::Many => true,
                    })
            };
            let list = self.0.lock().unwrap();
            found.extend(list.iter().filter(|(_, pattern)| hit(pattern)).map(|(value, _)| *value));
            Ok(())
        }
        fn len(&self) -> usize {
            self.0.lock().unwrap().len()
        }
    }

    impl System for List {
        const NAME: &'static str = "list";
        const WAYS: &'static [Way] = &[Way::Plain];
        type Own = Vec<u64>;
        fn build(_: &Texts) -> Self {
            Self(Mutex::default())
        }
        fn own() -> Self::Own {
            Vec::new()
        }
        fn ask(&self, own: &mut Self::Own, _: Way, subjects: &[&[u8]], each: impl FnMut(&[u64])) {
            ask_plainly(self, own, subjects, each);
        }
    }
}
