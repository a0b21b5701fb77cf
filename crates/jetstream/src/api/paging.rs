//! Lists, a page at a time.

use serde::Serialize;

use super::info::{ConsumerInfo, StreamInfo};
use super::page::Page;

/// The answer to STREAM.NAMES. Without any name it says null, as nats-server does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamNames {
    /// Which page.
    #[serde(flatten)]
    pub page: Page,
    /// The names, sorted.
    #[serde(serialize_with = "null_if_empty")]
    pub streams: Vec<String>,
}

fn null_if_empty<S: serde::Serializer>(names: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    if names.is_empty() { serializer.serialize_none() } else { names.serialize(serializer) }
}

/// The answer to STREAM.LIST.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamList {
    /// Which page.
    #[serde(flatten)]
    pub page: Page,
    /// The streams, sorted by name, without the metadata that only other answers show.
    pub streams: Vec<StreamInfo>,
    /// Those that did not answer in time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// The answer to CONSUMER.NAMES.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConsumerNames {
    /// Which page.
    #[serde(flatten)]
    pub page: Page,
    /// The names, sorted.
    pub consumers: Vec<String>,
}

/// The answer to CONSUMER.LIST.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConsumerList {
    /// Which page.
    #[serde(flatten)]
    pub page: Page,
    /// The consumers, sorted by name.
    pub consumers: Vec<ConsumerInfo>,
    /// Those that did not answer in time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_end_with_the_list() {
        assert_eq!(Page::of_names(3, 0).range(), 0..3);
        assert_eq!(Page::of_names(3, 9), Page { total: 3, offset: 3, limit: 1024 });
        assert_eq!(Page::of_list(1000, 900).range(), 900..1000);
        assert_eq!(Page::of_list(1000, 100).range(), 100..356);
        assert_eq!(Page::of_list(1000, i64::MAX).range(), 1000..1000);
    }

    #[test]
    fn no_streams_are_null_and_no_consumers_an_empty_list() {
        let page = Page::of_names(0, 0);
        let streams = serde_json::to_string(&StreamNames { page, streams: Vec::new() }).unwrap();
        assert_eq!(streams, r#"{"total":0,"offset":0,"limit":1024,"streams":null}"#);
        let consumers = serde_json::to_string(&ConsumerNames { page, consumers: Vec::new() }).unwrap();
        assert_eq!(consumers, r#"{"total":0,"offset":0,"limit":1024,"consumers":[]}"#);
    }
}
