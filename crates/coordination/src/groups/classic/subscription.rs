//! Parses the topics out of a consumer's otherwise opaque subscription (`ConsumerProtocolSubscription`).

use std::collections::BTreeSet;

use bytes::Bytes;
use tailrace_records::internal::{FieldReader, InternalRecordError};

/// Returns the topics of all subscriptions. `None` if one of them is not a consumer's.
pub(super) fn subscribed_topics(subscriptions: impl Iterator<Item = Bytes>) -> Option<BTreeSet<String>> {
    let mut topics = BTreeSet::new();
    for subscription in subscriptions {
        for topic in topics_of(&subscription).ok()? {
            if !topics.contains(topic) {
                topics.insert(topic.to_owned());
            }
        }
    }
    Some(topics)
}

/// Parses the topics. Every version starts with them; the rest does not matter here.
fn topics_of(subscription: &[u8]) -> Result<Vec<&str>, InternalRecordError> {
    let mut reader = FieldReader::new(subscription);
    let version = reader.version()?;
    if version < 0 {
        return Err(InternalRecordError::Invalid { field: "version", reason: "is below zero" });
    }
    reader.array("topics", |reader| reader.string("topic"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_and_anything_else_is_not_guessed_at() {
        let one = Bytes::from_static(b"\0\x03\0\0\0\x02\0\x01a\0\x01b\xff\xff\xff\xff");
        let two = Bytes::from_static(b"\0\0\0\0\0\x01\0\x01c\0\0\0\0");
        let expected = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(subscribed_topics([one.clone(), two].into_iter()), Some(expected));
        assert_eq!(subscribed_topics([one, Bytes::from_static(b"?")].into_iter()), None);
        assert_eq!(subscribed_topics(std::iter::empty()), Some(BTreeSet::new()));
    }
}
