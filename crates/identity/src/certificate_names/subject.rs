//! The subject of a certificate as text (RFC 2253), exactly as Java's `X500Principal.getName()` writes it,
//! since that is the text to which Kafka applies its rules.
//!
//! The last part comes first, as in all texts of RFC 2253. Only nine types of attributes have names. All
//! others, such as e-mail addresses, are written as numbers with their value in hexadecimal. Java escapes `=`
//! and `#` everywhere in a value, which RFC 2253 does not demand, and openssl does not do.

use super::der::{Element, OBJECT_IDENTIFIER, Reader, SEQUENCE, SET, at_subject};

/// Maximum length of a subject, in bytes of DER. Its text is at most four times as long.
const SUBJECT_BYTES_MAX: usize = 4_096;

// The types of values that Java writes as text.
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const TELETEX_STRING: u8 = 0x14;
const IA5_STRING: u8 = 0x16;
const GENERAL_STRING: u8 = 0x1b;
const BMP_STRING: u8 = 0x1e;

/// The names of types, with their object identifiers as DER encodes them.
const KEYWORDS: [(&str, &[u8]); 9] = [
    ("CN", b"\x55\x04\x03"),
    ("C", b"\x55\x04\x06"),
    ("L", b"\x55\x04\x07"),
    ("ST", b"\x55\x04\x08"),
    ("STREET", b"\x55\x04\x09"),
    ("O", b"\x55\x04\x0a"),
    ("OU", b"\x55\x04\x0b"),
    ("UID", b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x01"),
    ("DC", b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19"),
];

/// Why the subject of a certificate cannot be written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DnError {
    /// The bytes are not a certificate, or bytes follow it.
    #[error("it is not the DER of a certificate")]
    NotACertificate,
    /// The subject is not a name (X.501).
    #[error("the certificate's subject is malformed")]
    Malformed,
    /// The subject is empty. Such certificates have only alternative names, which Kafka does not use.
    #[error("the certificate's subject is empty")]
    Empty,
    /// The subject is too long.
    #[error("the certificate's subject has {found} bytes, and {SUBJECT_BYTES_MAX} are the most")]
    TooLong {
        /// Its length, in bytes of DER.
        found: usize,
    },
    /// A text has bytes that its type does not allow. What they mean differs between programs, and between
    /// versions of Java.
    #[error(
        "the attribute {attribute} of the certificate's subject has characters that its type does not have"
    )]
    Characters {
        /// The name of the attribute's type.
        attribute: &'static str,
    },
}

/// Returns the text of a certificate's subject. `certificate` is DER.
///
/// # Errors
/// The certificate is malformed, or its subject is empty, too long, or has texts that are not clear.
pub fn distinguished_name(certificate: &[u8]) -> Result<String, DnError> {
    let subject = subject(certificate).ok_or(DnError::NotACertificate)?;
    if subject.len() > SUBJECT_BYTES_MAX {
        return Err(DnError::TooLong { found: subject.len() });
    }
    let mut parts = Vec::new();
    let mut names = Reader::new(subject);
    while !names.is_at_end() {
        parts.push(relative_name(names.expect(SET).ok_or(DnError::Malformed)?)?);
    }
    if parts.is_empty() {
        return Err(DnError::Empty);
    }
    parts.reverse();
    Ok(parts.join(","))
}

/// Finds the subject (RFC 5280, section 4.1).
fn subject(certificate: &[u8]) -> Option<&[u8]> {
    at_subject(certificate)?.expect(SEQUENCE)
}

/// Writes attributes that stand side by side: nearly always one.
fn relative_name(set: &[u8]) -> Result<String, DnError> {
    let mut attributes = Vec::new();
    let mut set = Reader::new(set);
    while !set.is_at_end() {
        let (kind, value) = attribute(&mut set).ok_or(DnError::Malformed)?;
        attributes.push(written(kind, value)?);
    }
    if attributes.is_empty() { Err(DnError::Malformed) } else { Ok(attributes.join("+")) }
}

/// Reads an attribute: the object identifier of its type, and its value.
pub(super) fn attribute<'a>(set: &mut Reader<'a>) -> Option<(&'a [u8], Element<'a>)> {
    let mut parts = Reader::new(set.expect(SEQUENCE)?);
    let attribute = (parts.expect(OBJECT_IDENTIFIER)?, parts.element()?);
    parts.is_at_end().then_some(attribute)
}

fn written(kind: &[u8], value: Element<'_>) -> Result<String, DnError> {
    let keyword = KEYWORDS.iter().find(|(_, identifier)| *identifier == kind);
    let Some((keyword, _)) = keyword else {
        return Ok(format!("{}={}", dotted(kind).ok_or(DnError::Malformed)?, hexadecimal(value)));
    };
    match text_of(value) {
        Ok(Some(text)) => Ok(format!("{keyword}={}", escaped(&text))),
        Ok(None) => Ok(format!("{keyword}={}", hexadecimal(value))),
        Err(()) => Err(DnError::Characters { attribute: keyword }),
    }
}

/// Reads a text. `None` if the value is not one. Fails if it has bytes that its type does not allow.
pub(super) fn text_of(value: Element<'_>) -> Result<Option<String>, ()> {
    let utf8 = || str::from_utf8(value.content).ok().map(str::to_owned);
    let text = match value.tag {
        UTF8_STRING => utf8(),
        // Java 17 reads the rest of these as UTF-8, and Java 25 as Latin-1.
        PRINTABLE_STRING | TELETEX_STRING | IA5_STRING | GENERAL_STRING if !value.content.is_ascii() => None,
        PRINTABLE_STRING | TELETEX_STRING | IA5_STRING | GENERAL_STRING => utf8(),
        BMP_STRING => utf16(value.content),
        _ => return Ok(None),
    };
    text.map(Some).ok_or(())
}

/// Reads a BMPString as Java 25 does. Java 17 takes it for UTF-8.
fn utf16(bytes: &[u8]) -> Option<String> {
    let (pairs, []) = bytes.as_chunks() else { return None };
    char::decode_utf16(pairs.iter().copied().map(u16::from_be_bytes)).collect::<Result<_, _>>().ok()
}

fn hexadecimal(value: Element<'_>) -> String {
    let digits: String = value.encoded.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("#{digits}")
}

/// Writes an object identifier as numbers with dots in between.
fn dotted(identifier: &[u8]) -> Option<String> {
    let mut numbers = Vec::new();
    for encoded in identifier.split_inclusive(|byte| byte & 0x80 == 0) {
        let (first, last) = (encoded.first()?, encoded.last()?);
        // A number must not start with zeros, nor be cut off.
        if *first == 0x80 || last & 0x80 != 0 {
            return None;
        }
        let number = encoded
            .iter()
            .try_fold(0_u128, |number, byte| Some(number.checked_mul(0x80)? | u128::from(byte & 0x7f)));
        numbers.push(number?);
    }
    let (first, rest) = numbers.split_first()?;
    let root = (*first / 40).min(2);
    let start = format!("{root}.{}", first - root * 40);
    Some(rest.iter().fold(start, |text, number| format!("{text}.{number}")))
}

/// Escapes a value as Java does.
fn escaped(value: &str) -> String {
    let is_blank = |c: char| c == ' ' || c == '\r';
    let start = value.len() - value.trim_start_matches(is_blank).len();
    let end = value.trim_end_matches(is_blank).len();
    let mut text = String::with_capacity(value.len());
    for (at, c) in value.char_indices() {
        match c {
            '\0' => text.push_str("\\00"),
            ',' | '=' | '+' | '<' | '>' | '#' | ';' | '"' | '\\' => text.extend(['\\', c]),
            _ if at < start || at >= end => text.extend(['\\', c]),
            _ => text.push(c),
        }
    }
    text
}
