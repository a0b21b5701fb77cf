//! The names in a certificate among which nats-server looks for a user (`verify_and_map`), in its order:
//! e-mail addresses, DNS names and URIs of the alternative names, and then the subject.

use super::der::{BOOLEAN, Element, OBJECT_IDENTIFIER, OCTET_STRING, Reader, SEQUENCE, SET, at_subject};
use super::distinguished::{DistinguishedName, TYPES};
use super::subject::{attribute, text_of};

/// Maximum number of alternative names.
const NAMES_MAX: usize = 256;

/// Maximum length of a subject, in bytes of DER.
const SUBJECT_BYTES_MAX: usize = 4_096;

/// The tag of the extensions.
const EXTENSIONS: u8 = 0xa3;

/// The object identifier of the alternative names.
const ALTERNATIVE_NAMES: &[u8] = b"\x55\x1d\x11";

// The tags of alternative names.
const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;

/// The order in which Go's `pkix.Name` writes attributes.
const WRITTEN: [&str; 9] = ["SERIALNUMBER", "CN", "OU", "O", "POSTALCODE", "STREET", "L", "ST", "C"];

/// Why the names in a certificate cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NatsNamesError {
    /// The bytes are not a certificate.
    #[error("its certificate is malformed")]
    Malformed,
    /// Too long, or too many.
    #[error(
        "its certificate has more than {NAMES_MAX} names, or a subject of more than {SUBJECT_BYTES_MAX} bytes"
    )]
    TooMany,
    /// A text has bytes that its type does not allow.
    #[error("a name in its certificate has characters that its type does not have")]
    Characters,
}

/// The names in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsNames {
    /// The alternative names, in the order in which they count.
    pub(crate) alternative: Vec<String>,
    /// The subject. `None` if it has attributes that nats-server does not know.
    pub(crate) subject: Option<DistinguishedName>,
    /// Texts of the subject as Go writes it: with its domain components, if there are any, and without.
    pub(crate) texts: Vec<String>,
}

impl NatsNames {
    /// Reads a certificate (DER).
    ///
    /// # Errors
    /// The certificate is malformed, or its names are too many or too long, or have texts that are not clear.
    pub fn read(certificate: &[u8]) -> Result<Self, NatsNamesError> {
        let (subject, extensions) = parts(certificate).ok_or(NatsNamesError::Malformed)?;
        if subject.len() > SUBJECT_BYTES_MAX {
            return Err(NatsNamesError::TooMany);
        }
        let attributes = attributes(subject)?;
        let alternative = match extensions {
            Some(extensions) => alternative_names(extensions)?,
            None => Vec::new(),
        };
        Ok(Self { alternative, subject: distinguished(&attributes), texts: texts(&attributes) })
    }

    /// Returns the text of the subject, for the log.
    pub fn subject(&self) -> &str {
        self.texts.first().map_or("", |text| text)
    }
}

/// An attribute of the subject: the name of its type, if nats-server knows it, and its text, if it is one.
type Known = (Option<&'static str>, Option<String>);

/// Finds the subject and the extensions (RFC 5280, section 4.1).
fn parts(certificate: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let mut signed = at_subject(certificate)?;
    let subject = signed.expect(SEQUENCE)?;
    signed.expect(SEQUENCE)?; // The public key.
    while !signed.is_at_end() {
        let Element { tag, content, .. } = signed.element()?;
        if tag == EXTENSIONS {
            return Some((subject, Some(content)));
        }
    }
    Some((subject, None))
}

/// Reads the attributes of a subject, part by part.
fn attributes(subject: &[u8]) -> Result<Vec<Vec<Known>>, NatsNamesError> {
    let (mut parts, mut names) = (Vec::new(), Reader::new(subject));
    while !names.is_at_end() {
        let mut set = Reader::new(names.expect(SET).ok_or(NatsNamesError::Malformed)?);
        let mut part = Vec::new();
        while !set.is_at_end() {
            let (kind, value) = attribute(&mut set).ok_or(NatsNamesError::Malformed)?;
            let name = TYPES.iter().find(|(_, identifier)| *identifier == kind).map(|(name, _)| *name);
            let text = text_of(value).map_err(|()| NatsNamesError::Characters)?;
            part.push((name, text));
        }
        parts.push(part);
    }
    Ok(parts)
}

/// Makes a name to compare. `None` if nats-server does not know a type or a value.
fn distinguished(attributes: &[Vec<Known>]) -> Option<DistinguishedName> {
    let part = |part: &Vec<Known>| {
        let attribute = |(name, text): &Known| Some(((*name)?.to_owned(), text.clone()?.into_bytes()));
        part.iter().map(attribute).collect::<Option<Vec<_>>>()
    };
    DistinguishedName::new(attributes.iter().rev().map(part).collect::<Option<Vec<_>>>()?)
}

/// Writes the subject as Go's `pkix.Name` does: attributes of the same type side by side, in an order of its
/// own, and without those that it does not know. Of several common names, the last one counts.
fn texts(attributes: &[Vec<Known>]) -> Vec<String> {
    let written = WRITTEN.iter().filter_map(|name| {
        let values = values(attributes, name);
        let values: Vec<_> = values.iter().map(|value| format!("{name}={}", escaped(value))).collect();
        (!values.is_empty()).then(|| values.join("+"))
    });
    let plain = written.collect::<Vec<_>>().join(",");
    let components: Vec<_> = values(attributes, "DC").iter().map(|value| format!("DC={value}")).collect();
    let with_components = (!components.is_empty()).then(|| format!("{plain},{}", components.join(",")));
    with_components.into_iter().chain((!plain.is_empty()).then_some(plain)).collect()
}

/// Returns the values of a type, as far as Go keeps them.
fn values<'a>(attributes: &'a [Vec<Known>], wanted: &str) -> Vec<&'a str> {
    let of_type = attributes.iter().flatten().filter(|(name, _)| *name == Some(wanted));
    let mut found: Vec<_> = of_type.filter_map(|(_, text)| text.as_deref()).collect();
    if matches!(wanted, "CN" | "SERIALNUMBER") {
        // Of several the last one, unless it is empty.
        found = found.pop().filter(|text| !text.is_empty()).into_iter().collect();
    }
    found
}

/// Escapes a value as Go does.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for (at, c) in value.char_indices() {
        let is_escaped = match c {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => true,
            ' ' => at == 0 || at + 1 == value.len(),
            '#' => at == 0,
            _ => false,
        };
        if is_escaped {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

/// Reads the alternative names, in the order in which they count.
fn alternative_names(extensions: &[u8]) -> Result<Vec<String>, NatsNamesError> {
    let encoded = find_names(extensions).ok_or(NatsNamesError::Malformed)?;
    let (mut found, mut names) = (Vec::new(), Reader::new(encoded));
    while !names.is_at_end() {
        let Element { tag, content, .. } = names.element().ok_or(NatsNamesError::Malformed)?;
        let Some(rank) = [EMAIL, DNS, URI].iter().position(|known| *known == tag) else { continue };
        if !content.is_ascii() {
            return Err(NatsNamesError::Characters);
        }
        found.push((rank, String::from_utf8_lossy(content).into_owned()));
        if found.len() > NAMES_MAX {
            return Err(NatsNamesError::TooMany);
        }
    }
    // Stable: names of a kind stay in the order of the certificate.
    found.sort_by_key(|(rank, _)| *rank);
    Ok(found.into_iter().map(|(_, name)| name).filter(|name| !name.is_empty()).collect())
}

/// Finds the content of the alternative names. Empty if there are none.
fn find_names(extensions: &[u8]) -> Option<&[u8]> {
    let mut list = Reader::new(Reader::new(extensions).expect(SEQUENCE)?);
    while !list.is_at_end() {
        let mut extension = Reader::new(list.expect(SEQUENCE)?);
        let kind = extension.expect(OBJECT_IDENTIFIER)?;
        extension.skip_if(BOOLEAN)?;
        let value = extension.expect(OCTET_STRING)?;
        if kind == ALTERNATIVE_NAMES {
            return Reader::new(value).expect(SEQUENCE);
        }
    }
    Some(&[])
}
