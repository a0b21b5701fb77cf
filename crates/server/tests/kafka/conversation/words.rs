//! Splits a line into words: `verb v9 t-0 key=value flag "text"`.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Words {
    pub verb: String,
    pub version: i16,
    /// Words of the form `key=value`.
    options: BTreeMap<String, String>,
    /// Texts in quotation marks.
    pub texts: Vec<String>,
    /// All other words.
    pub plain: Vec<String>,
}

/// A partition, and the text after `@`.
#[derive(Clone, Debug)]
pub struct Place {
    pub topic: String,
    pub partition: i32,
    pub at: Option<String>,
}

impl Words {
    pub fn of(line: &str) -> Self {
        let mut words = Self::default();
        let mut rest = line;
        while !rest.is_empty() {
            let word;
            if let Some(text) = rest.strip_prefix('"') {
                (word, rest) = text.split_once('"').expect("a closing quotation mark");
                words.texts.push(word.to_owned());
            } else {
                (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                words.take(word);
            }
            rest = rest.trim_start();
        }
        words
    }

    fn take(&mut self, word: &str) {
        let version = word.strip_prefix('v').and_then(|digits| digits.parse().ok());
        match (version, word.split_once('=')) {
            (Some(version), _) if !self.verb.is_empty() => self.version = version,
            (_, Some((key, value))) => drop(self.options.insert(key.to_owned(), value.to_owned())),
            _ if self.verb.is_empty() => self.verb = word.to_owned(),
            _ => self.plain.push(word.to_owned()),
        }
    }

    pub fn text(&self, key: &str) -> Option<String> {
        self.options.get(key).cloned()
    }

    pub fn number<N: std::str::FromStr>(&self, key: &str, otherwise: N) -> N {
        let parse = |text: &String| text.parse().unwrap_or_else(|_| panic!("{key}={text}: not a number"));
        self.options.get(key).map_or(otherwise, parse)
    }

    pub fn has(&self, flag: &str) -> bool {
        self.plain.iter().any(|word| word == flag)
    }

    /// Returns the settings: options whose key contains a dot.
    pub fn settings(&self) -> impl Iterator<Item = (&String, &String)> {
        self.options.iter().filter(|(key, _)| key.contains('.'))
    }

    /// Returns every word of the form `topic-0` or `topic-0@5`.
    pub fn places(&self) -> Vec<Place> {
        self.plain.iter().filter_map(|word| Place::of(word)).collect()
    }

    /// Returns the same partitions, grouped by topic.
    pub fn by_topic(&self) -> BTreeMap<String, Vec<Place>> {
        let mut topics: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for place in self.places() {
            topics.entry(place.topic.clone()).or_default().push(place);
        }
        topics
    }
}

impl Place {
    pub fn of(word: &str) -> Option<Self> {
        let (name, at) = match word.split_once('@') {
            Some((name, at)) => (name, Some(at.to_owned())),
            None => (word, None),
        };
        let (topic, partition) = name.rsplit_once('-')?;
        Some(Self { topic: topic.to_owned(), partition: partition.parse().ok()?, at })
    }

    pub fn offset(&self) -> i64 {
        self.at.as_deref().map_or(0, |at| at.parse().expect("an offset"))
    }
}
