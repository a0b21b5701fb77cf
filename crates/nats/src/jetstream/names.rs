//! Names of streams and of their topics.
//!
//! A stream's name may have characters that no topic's name has. They are written as `.` and two hexadecimal
//! digits. No stream's name has a dot, so this can be undone, and no two streams share a topic.

use std::borrow::Cow;

use tailrace_metadata::TopicImage;
use tailrace_nats_wire::push_decimal;

/// Returns the name of a stream's topic.
pub(super) fn topic_of(stream: &str) -> String {
    let mut name = String::with_capacity(stream.len());
    for byte in stream.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            other => {
                name.push('.');
                name.extend(
                    [other >> 4, other & 15]
                        .map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0').to_ascii_uppercase()),
                );
            }
        }
    }
    name
}

/// Returns the stream of a topic that JetStream's API has made. `None` if it cannot have made such a name.
pub(super) fn stream_of(topic: &str) -> Option<Cow<'_, str>> {
    if !topic.contains('.') {
        return Some(Cow::Borrowed(topic));
    }
    let mut bytes = Vec::with_capacity(topic.len());
    let mut parts = topic.split('.');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        let digits = part.get(..2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Appends the name of a partition's stream, as acknowledgements have it.
pub(crate) fn write_name(topic: &TopicImage, partition: u32, out: &mut Vec<u8>) {
    let name = topic.name.as_str();
    if !topic.config.tailrace_jetstream_stream.is_empty()
        && let Some(stream) = stream_of(name)
    {
        out.extend_from_slice(stream.as_bytes());
        return;
    }
    out.extend(name.bytes().map(|byte| if byte == b'.' { b'_' } else { byte }));
    if topic.partitions > 1 {
        out.push(b'-');
        push_decimal(out, partition.into());
    }
}

/// The same as text in JSON.
pub(crate) fn write_json_name(topic: &TopicImage, partition: u32, out: &mut Vec<u8>) {
    out.push(b'"');
    let start = out.len();
    write_name(topic, partition, out);
    // Names of topics need no escape. Those of streams may.
    if out[start..].iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
        out.push(b'"');
        return;
    }
    let name = String::from_utf8_lossy(&out[start..]).into_owned();
    out.truncate(start - 1);
    out.extend(serde_json::to_vec(&name).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_names_of_topics_and_come_back() {
        for (stream, topic) in [
            ("ORDERS", "ORDERS"),
            ("KV_my-bucket_1", "KV_my-bucket_1"),
            ("a$b", "a.24b"),
            ("\u{e9}t\u{e9}", ".C3.A9t.C3.A9"),
            ("a\"b{}", "a.22b.7B.7D"),
        ] {
            assert_eq!(topic_of(stream), topic);
            assert_eq!(stream_of(topic).as_deref(), Some(stream));
        }
        for other in ["a.b", "a.", "a.zz", "a.FF"] {
            assert_eq!(stream_of(other), None, "{other}");
        }
    }
}
