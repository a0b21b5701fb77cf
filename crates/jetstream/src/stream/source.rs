//! Where a mirror or a stream with sources takes its messages from.

use serde::Serialize;

use super::omit;
use crate::go::Time;
use crate::json::fields;

/// Subjects, and how they are rewritten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SubjectTransform {
    /// Which subjects; empty for all.
    #[serde(rename = "src")]
    pub source: String,
    /// How they are written; empty for no change.
    #[serde(rename = "dest")]
    pub destination: String,
}

fields! {
    SubjectTransform as "SubjectTransformConfig";
    "src" "string" source
    "dest" "string" destination
}

/// A stream of another account or domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExternalStream {
    /// What stands in place of `$JS.API` there.
    #[serde(rename = "api")]
    pub api_prefix: String,
    /// What stands before the subjects to which it delivers.
    #[serde(rename = "deliver")]
    pub deliver_prefix: String,
}

fields! {
    ExternalStream as "ExternalStream";
    "api" "string" api_prefix
    "deliver" "string" deliver_prefix
}

/// A durable consumer of the origin that the user has made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SourceConsumer {
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where it delivers to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deliver_subject: String,
}

fields! {
    SourceConsumer as "StreamConsumerSource";
    "name" "string" name
    "deliver_subject" "string" deliver_subject
}

/// The origin of a mirror, or one source of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Source {
    /// The stream.
    pub name: String,
    /// The first sequence to take.
    #[serde(skip_serializing_if = "omit::zero")]
    pub opt_start_seq: u64,
    /// The time of the first message to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opt_start_time: Option<Time>,
    /// Which subjects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_subject: String,
    /// Which subjects, and how they are written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subject_transforms: Vec<SubjectTransform>,
    /// In which account or domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalStream>,
    /// Through which consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<SourceConsumer>,
}

fields! {
    Source as "StreamSource";
    "name" "string" name
    "opt_start_seq" "uint64" opt_start_seq
    "opt_start_time" "*time.Time" opt_start_time
    "filter_subject" "string" filter_subject
    "subject_transforms" "[]server.SubjectTransformConfig" subject_transforms
    "external" "*server.ExternalStream" external
    "consumer" "*server.StreamConsumerSource" consumer
}

impl Source {
    /// What makes a source another one: its stream, where that is, and which subjects it takes.
    pub(super) fn index_key(&self) -> [String; 5] {
        let or_all = |text: &str| if text.is_empty() { ">".to_owned() } else { text.to_owned() };
        let (sources, destinations) = match self.subject_transforms.as_slice() {
            [] => (or_all(&self.filter_subject), ">".to_owned()),
            list => {
                let join = |texts: Vec<String>| texts.join("\x0c");
                let sources = list.iter().map(|transform| or_all(&transform.source)).collect();
                (join(sources), join(list.iter().map(|transform| or_all(&transform.destination)).collect()))
            }
        };
        let external = self.external.as_ref().map_or("", |external| &external.api_prefix);
        let consumer = self.consumer.as_ref().map_or("", |consumer| &consumer.name);
        let kind = |text: &str, is_there: bool| if is_there { format!(":{text}") } else { String::new() };
        [
            self.name.clone(),
            kind(external, self.external.is_some()),
            kind(consumer, self.consumer.is_some()),
            sources,
            destinations,
        ]
    }

    /// What makes the consumer of a source another one.
    pub(super) fn consumer_key(&self) -> (&str, Option<&str>, &str) {
        let external = self.external.as_ref().map(|external| external.api_prefix.as_str());
        (&self.name, external, self.consumer.as_ref().map_or("", |consumer| &consumer.name))
    }
}
