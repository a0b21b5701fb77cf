//! A distinguished name (RFC 4514) as nats-server compares it: part by part, whatever its text looks like.

/// The types of attributes that such a name may have, with their object identifiers as DER encodes them.
pub(super) const TYPES: [(&str, &[u8]); 10] = [
    ("CN", b"\x55\x04\x03"),
    ("SERIALNUMBER", b"\x55\x04\x05"),
    ("C", b"\x55\x04\x06"),
    ("L", b"\x55\x04\x07"),
    ("ST", b"\x55\x04\x08"),
    ("STREET", b"\x55\x04\x09"),
    ("O", b"\x55\x04\x0a"),
    ("OU", b"\x55\x04\x0b"),
    ("POSTALCODE", b"\x55\x04\x11"),
    ("DC", b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19"),
];

/// An attribute: its type in capital letters, and its value.
type Attribute = (String, Vec<u8>);

/// A name: its parts, each with its attributes in a fixed order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DistinguishedName(Vec<Vec<Attribute>>);

impl DistinguishedName {
    /// Makes a name of its parts, the last one of the certificate first. The order of attributes within a
    /// part does not count. `None` if there are no parts, or an empty one.
    pub(super) fn new(parts: Vec<Vec<Attribute>>) -> Option<Self> {
        if parts.is_empty() || parts.iter().any(Vec::is_empty) {
            return None;
        }
        let sorted = |mut part: Vec<Attribute>| {
            part.sort();
            part
        };
        Some(Self(parts.into_iter().map(sorted).collect()))
    }

    /// Returns the name with its parts in a fixed order: what names that differ in it have in common.
    pub(crate) fn in_any_order(&self) -> Self {
        let mut parts = self.0.clone();
        parts.sort();
        Self(parts)
    }

    /// Reads the text of a name. `None` if it is not one. Stricter than nats-server, where `X=CN=bob` and
    /// `CN=bob,` are `CN=bob`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (mut parts, mut part) = (Vec::new(), Vec::new());
        let (mut kind, mut value) = (None, Value::default());
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\\' => value.push_escaped(&mut bytes)?,
                b'=' if kind.is_none() => {
                    let name = String::from_utf8(value.take()).ok()?;
                    // Values in BER are not supported.
                    if name.is_empty() || bytes.clone().next() == Some(b'#') {
                        return None;
                    }
                    kind = Some(name.to_ascii_uppercase());
                }
                b'=' => return None,
                b',' | b'+' => {
                    part.push((kind.take()?, value.take_some()?));
                    if byte == b',' {
                        parts.push(std::mem::take(&mut part));
                    }
                }
                _ => value.push(byte),
            }
        }
        part.push((kind?, value.take_some()?));
        parts.push(part);
        Self::new(parts)
    }
}

/// A type or a value that is being read. Blanks around it do not count, unless they are escaped.
#[derive(Default)]
struct Value {
    bytes: Vec<u8>,
    /// Number of blanks at its end that are not escaped.
    blanks: usize,
}

impl Value {
    fn push(&mut self, byte: u8) {
        match byte {
            b' ' if self.bytes.is_empty() => return,
            b' ' => self.blanks += 1,
            _ => self.blanks = 0,
        }
        self.bytes.push(byte);
    }

    /// Reads what follows a backslash: a special character, or a byte as two hexadecimal digits.
    fn push_escaped(&mut self, rest: &mut std::str::Bytes<'_>) -> Option<()> {
        let first = rest.next()?;
        let byte = match first {
            b' ' | b'"' | b'#' | b'+' | b',' | b';' | b'<' | b'=' | b'>' | b'\\' => first,
            _ => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(first)?, digit(rest.next()?)?);
                u8::try_from(high << 4 | low).ok()?
            }
        };
        self.blanks = 0;
        self.bytes.push(byte);
        Some(())
    }

    fn take(&mut self) -> Vec<u8> {
        let Self { mut bytes, blanks } = std::mem::take(self);
        bytes.truncate(bytes.len() - blanks);
        bytes
    }

    fn take_some(&mut self) -> Option<Vec<u8>> {
        Some(self.take()).filter(|bytes| !bytes.is_empty())
    }
}
