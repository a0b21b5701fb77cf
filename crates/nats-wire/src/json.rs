//! JSON parsing that accepts what Go's decoder accepts and serde_json refuses: field names in any case, null
//! for "unchanged", and strings with invalid Unicode.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Checks that the text is JSON. Strings may contain bytes that are not UTF-8.
///
/// # Errors
/// If the text is not JSON.
pub(crate) fn check(text: &[u8]) -> Result<(), serde_json::Error> {
    serde_json::from_slice::<IgnoredAny>(text).map(drop)
}

/// A string. Each byte that is not Unicode becomes U+FFFD. So does each lone surrogate as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(Bytes)
    }
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
        Ok(Text(replaced(bytes)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.to_owned()))
    }
}

fn replaced(mut bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    loop {
        let (legal, rest) = match std::str::from_utf8(bytes) {
            Ok(legal) => return text + legal,
            Err(error) => bytes.split_at(error.valid_up_to()),
        };
        text.push_str(&String::from_utf8_lossy(legal));
        text.push(char::REPLACEMENT_CHARACTER);
        // serde_json decodes escapes to their meaning, surrogates included.
        let is_surrogate = matches!(rest, [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..]);
        bytes = &rest[if is_surrogate { 3 } else { 1 }..];
    }
}

/// Returns the name of a field as it is compared: in lower case. Two letters beyond ASCII count as `s` and
/// `k`.
pub(crate) fn folded(name: &str) -> String {
    let fold = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    name.chars().map(fold).collect()
}

/// Sets a field, unless the value is null.
pub(crate) fn set<'de, M: MapAccess<'de>, T: Deserialize<'de>>(
    map: &mut M,
    field: &mut T,
) -> Result<(), M::Error> {
    if let Some(value) = map.next_value()? {
        *field = value;
    }
    Ok(())
}

/// Checks that a value has this type, or is null.
pub(crate) fn skip<'de, T: Deserialize<'de>, M: MapAccess<'de>>(map: &mut M) -> Result<(), M::Error> {
    map.next_value::<Option<T>>().map(drop)
}

/// Lists of subjects that servers send each other. Only their types are checked.
pub(crate) struct SubjectLists;

impl<'de> Deserialize<'de> for SubjectLists {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = SubjectLists;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with lists of subjects")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<SubjectLists, M::Error> {
                while let Some(Text(name)) = map.next_key()? {
                    match folded(&name).as_str() {
                        "allow" | "deny" => skip::<Vec<Option<Text>>, _>(&mut map)?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(SubjectLists)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}
