//! Values of a checked text into types, as Go's decoder does it.

use std::collections::BTreeMap;

use crate::go::{Time, quote};
use crate::limits::{LIST_ELEMENTS_MAX, METADATA_KEYS_MAX};

/// An error that ends reading at once: one of a type that reads itself, or one of our bounds.
#[derive(Debug)]
pub(crate) struct Abort(pub(crate) String);

/// Where a value would go and what went wrong first. Go reads on after an unknown field or a value of a
/// wrong type, and tells of the first of them at the end.
pub(crate) struct Report {
    is_strict: bool,
    first: Option<String>,
    /// The Go type whose field is read, and the path of fields to it.
    go_struct: &'static str,
    path: Vec<&'static str>,
}

impl Report {
    /// Unknown fields are errors if it is strict.
    pub(crate) fn new(is_strict: bool) -> Self {
        Self { is_strict, first: None, go_struct: "", path: Vec::new() }
    }

    /// The first error.
    pub(crate) fn into_first(self) -> Option<String> {
        self.first
    }

    fn save(&mut self, text: impl FnOnce() -> String) {
        if self.first.is_none() {
            self.first = Some(text());
        }
    }

    fn mismatch(&mut self, found: &str, go_type: &str) {
        if self.first.is_none() {
            self.first = Some(self.mismatch_text(found, go_type));
        }
    }

    /// The text of a value that is of another type than the field.
    pub(crate) fn mismatch_text(&self, found: &str, go_type: &str) -> String {
        let (go_struct, path) = (self.go_struct, self.path.join("."));
        match go_struct {
            "" => format!("json: cannot unmarshal {found} into Go value of type {go_type}"),
            _ => format!(
                "json: cannot unmarshal {found} into Go struct field {go_struct}.{path} of type {go_type}"
            ),
        }
    }

    /// Reads a field with this name in its path.
    pub(crate) fn within<T>(&mut self, name: &'static str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(name);
        let result = read(self);
        self.path.pop();
        result
    }
}

/// A place in a text whose syntax was checked.
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Begins at the start of a checked value.
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    fn peek(&mut self) -> u8 {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n' | b',' | b':')) {
            self.at += 1;
        }
        self.text.get(self.at).copied().unwrap_or(0)
    }

    /// The text of the next value, which is passed over.
    pub(crate) fn raw(&mut self) -> &'a [u8] {
        self.peek();
        let start = self.at;
        let mut depth = 0usize;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'"' => self.pass_string(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth == 0 => break,
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => break,
                _ => {
                    self.at += 1;
                    continue;
                }
            }
            if depth == 0 {
                break;
            }
        }
        &self.text[start..self.at]
    }

    fn pass_string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.text.get(self.at) {
            self.at += if *byte == b'\\' { 2 } else { 1 };
            if *byte == b'"' {
                return;
            }
        }
    }

    /// Goes through the elements of a list, or the keys of an object.
    fn each(&mut self, mut element: impl FnMut(&mut Self) -> Result<(), Abort>) -> Result<(), Abort> {
        self.peek();
        self.at += 1;
        while !matches!(self.peek(), b'}' | b']' | 0) {
            element(self)?;
        }
        self.at += 1;
        Ok(())
    }
}

/// The characters of a string value. What is not Unicode becomes U+FFFD, as in Go.
pub(crate) fn raw_text(raw: &[u8]) -> String {
    let inside = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    let mut text = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        push_lossy(&mut text, &rest[..at]);
        rest = push_escape(&mut text, &rest[at + 1..]);
    }
    push_lossy(&mut text, rest);
    text
}

/// Each byte that belongs to no character becomes U+FFFD.
fn push_lossy(text: &mut String, mut bytes: &[u8]) {
    loop {
        match std::str::from_utf8(bytes) {
            Ok(legal) => return text.push_str(legal),
            Err(error) => {
                let (legal, rest) = bytes.split_at(error.valid_up_to());
                text.push_str(std::str::from_utf8(legal).unwrap_or_default());
                text.push(char::REPLACEMENT_CHARACTER);
                bytes = &rest[1..];
            }
        }
    }
}

fn push_escape<'a>(text: &mut String, rest: &'a [u8]) -> &'a [u8] {
    let Some((letter, rest)) = rest.split_first() else { return rest };
    text.push(match letter {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return push_unicode(text, rest),
        other => char::from(*other),
    });
    rest
}

fn push_unicode<'a>(text: &mut String, rest: &'a [u8]) -> &'a [u8] {
    let Some((first, after)) = hex(rest) else { return rest };
    if let Some(letter) = char::from_u32(first) {
        text.push(letter);
        return after;
    }
    // Half of a pair: with the other half it is one character, alone it is none.
    let low = after.strip_prefix(b"\\u").and_then(hex).filter(|(low, _)| (0xdc00..0xe000).contains(low));
    if let Some((low, after)) = low.filter(|_| first < 0xdc00) {
        let letter = char::from_u32(0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00));
        text.push(letter.unwrap_or(char::REPLACEMENT_CHARACTER));
        return after;
    }
    text.push(char::REPLACEMENT_CHARACTER);
    after
}

fn hex(rest: &[u8]) -> Option<(u32, &[u8])> {
    let digits = std::str::from_utf8(rest.get(..4)?).ok()?;
    Some((u32::from_str_radix(digits, 16).ok()?, &rest[4..]))
}

/// A type that a request may hold. `go_type` is how Go names it in errors.
pub(crate) trait Decode {
    /// Reads the value at the cursor into this one. Null leaves most types as they are.
    fn decode(
        &mut self,
        go_type: &'static str,
        cursor: &mut Cursor<'_>,
        report: &mut Report,
    ) -> Result<(), Abort>;
}

/// An object with known fields.
pub(crate) trait Fields {
    /// The name of the type in Go, without its package.
    const GO_NAME: &'static str;

    /// Reads the value of the field with this name, in lower case; false if there is no such field.
    fn field(&mut self, name: &str, cursor: &mut Cursor<'_>, report: &mut Report) -> Result<bool, Abort>;
}

impl<T: Fields> Decode for T {
    fn decode(
        &mut self,
        go_type: &'static str,
        cursor: &mut Cursor<'_>,
        report: &mut Report,
    ) -> Result<(), Abort> {
        if cursor.peek() != b'{' {
            return refuse(go_type, cursor, report);
        }
        let outer = report.go_struct;
        cursor.each(|cursor| {
            let name = raw_text(cursor.raw());
            report.go_struct = T::GO_NAME;
            let known = self.field(&folded(&name), cursor, report)?;
            report.go_struct = outer;
            if !known {
                if report.is_strict {
                    report.save(|| format!("json: unknown field {}", quote(name.as_bytes())));
                }
                cursor.raw();
            }
            Ok(())
        })
    }
}

/// The name of a field as it is compared: in lower case. Two letters beyond ASCII count as `s` and `k`.
fn folded(name: &str) -> String {
    let fold = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    name.chars().map(fold).collect()
}

/// A value of a wrong type is passed over and reported. Null is ignored.
fn refuse(go_type: &str, cursor: &mut Cursor<'_>, report: &mut Report) -> Result<(), Abort> {
    let found = match cursor.peek() {
        b'n' => None,
        b'"' => Some("string"),
        b'{' => Some("object"),
        b'[' => Some("array"),
        b't' | b'f' => Some("bool"),
        _ => Some("number"),
    };
    cursor.raw();
    if let Some(found) = found {
        report.mismatch(found, go_type);
    }
    Ok(())
}

impl Decode for String {
    fn decode(
        &mut self,
        go_type: &'static str,
        cursor: &mut Cursor<'_>,
        report: &mut Report,
    ) -> Result<(), Abort> {
        if cursor.peek() != b'"' {
            return refuse(go_type, cursor, report);
        }
        *self = raw_text(cursor.raw());
        Ok(())
    }
}

impl Decode for bool {
    fn decode(
        &mut self,
        go_type: &'static str,
        cursor: &mut Cursor<'_>,
        report: &mut Report,
    ) -> Result<(), Abort> {
        if !matches!(cursor.peek(), b't' | b'f') {
            return refuse(go_type, cursor, report);
        }
        *self = cursor.raw() == b"true";
        Ok(())
    }
}

macro_rules! integers {
    ($($number:ty),*) => {$(
        impl Decode for $number {
            fn decode(
                &mut self,
                go_type: &'static str,
                cursor: &mut Cursor<'_>,
                report: &mut Report,
            ) -> Result<(), Abort> {
                if !matches!(cursor.peek(), b'-' | b'0'..=b'9') {
                    return refuse(go_type, cursor, report);
                }
                let text = String::from_utf8_lossy(cursor.raw());
                match text.parse() {
                    Ok(number) => *self = number,
                    Err(_) => report.mismatch(&format!("number {text}"), go_type),
                }
                Ok(())
            }
        }
    )*};
}

integers!(i32, i64, u64);

impl<T: Decode + Default> Decode for Vec<T> {
    fn decode(
        &mut self,
        go_type: &'static str,
        cursor: &mut Cursor<'_>,
        report: &mut Report,
    ) -> Result<(), Abort> {
        let first = cursor.peek();
        if matches!(first, b'[' | b'n') {
            self.clear();
        }
        if first != b'[' {
            return refuse(go_type, cursor, report);
        }
        let element_type = go_type.strip_prefix("[]").unwrap_or(go_type);
        cursor.each(|cursor| {
            if self.len() == LIST_ELEMENTS_MAX {
                return Err(Abort(format!("list of more than {LIST_ELEMENTS_MAX} elements")));
            }
            let mut element = T::default();
            element.decode(element_type, cursor, report)?;
            self.push(element);
            Ok(())
        })
    }
}

/// What Go has as a pointer: null makes it nothing.
impl<T: Decode + Default> Decode for Option<T> {
    fn decode(
        &mut self,
        go_type: &'static str,
        cursor: &mut Cursor<'_>,
        report: &mut Report,
    ) -> Result<(), Abort> {
        if cursor.peek() == b'n' {
            *self = None;
            cursor.raw();
            return Ok(());
        }
        let inner_type = go_type.strip_prefix('*').unwrap_or(go_type);
        self.get_or_insert_default().decode(inner_type, cursor, report)
    }
}

impl Decode for BTreeMap<String, String> {
    fn decode(
        &mut self,
        go_type: &'static str,
        cursor: &mut Cursor<'_>,
        report: &mut Report,
    ) -> Result<(), Abort> {
        match cursor.peek() {
            b'{' => {}
            b'n' => {
                self.clear();
                return refuse(go_type, cursor, report);
            }
            _ => return refuse(go_type, cursor, report),
        }
        cursor.each(|cursor| {
            let key = raw_text(cursor.raw());
            let mut value = String::new();
            value.decode("string", cursor, report)?;
            if self.len() == METADATA_KEYS_MAX && !self.contains_key(&key) {
                return Err(Abort(format!("object of more than {METADATA_KEYS_MAX} keys")));
            }
            self.insert(key, value);
            Ok(())
        })
    }
}

impl Decode for Time {
    fn decode(&mut self, _: &'static str, cursor: &mut Cursor<'_>, _: &mut Report) -> Result<(), Abort> {
        let raw = cursor.raw();
        if raw == b"null" {
            return Ok(());
        }
        let inside = raw.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        let inside =
            inside.ok_or_else(|| Abort("Time.UnmarshalJSON: input is not a JSON string".to_owned()))?;
        // Go reads the bytes as they stand, escapes included.
        *self = Time::parse(&String::from_utf8_lossy(inside)).map_err(Abort)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_as_go_reads_them() {
        let known: [(&[u8], &str); 6] = [
            (br#""a\n\"\\\/\u00e9b""#, "a\n\"\\/\u{e9}b"),
            (br#""\ud83d\ude00""#, "\u{1f600}"),
            (br#""\ud83dx""#, "\u{fffd}x"),
            (br#""\ud83d\ud83d""#, "\u{fffd}\u{fffd}"),
            (b"\"\xffa\xc3\"", "\u{fffd}a\u{fffd}"),
            (b"\"\"", ""),
        ];
        for (raw, text) in known {
            assert_eq!(raw_text(raw), text);
        }
    }

    #[test]
    fn raw_values_end_where_they_end() {
        let mut cursor = Cursor::new(br#" {"a":[1,"]}"]} , "x\"y" : -1.5 ,null"#);
        let found: Vec<_> = (0..4).map(|_| cursor.raw()).collect();
        assert_eq!(found, [br#"{"a":[1,"]}"]}"#.as_slice(), br#""x\"y""#, b"-1.5", b"null"]);
    }

    #[test]
    fn lists_and_maps_are_bounded() {
        let list = format!("[{}0]", "0,".repeat(LIST_ELEMENTS_MAX));
        let mut numbers: Vec<u64> = Vec::new();
        let end = numbers.decode("[]uint64", &mut Cursor::new(list.as_bytes()), &mut Report::new(true));
        assert!(end.is_err());
        let keys: Vec<_> = (0..=METADATA_KEYS_MAX).map(|key| format!("\"{key}\":\"\"")).collect();
        let text = format!("{{{}}}", keys.join(","));
        let mut map = BTreeMap::new();
        let end = map.decode("map[string]string", &mut Cursor::new(text.as_bytes()), &mut Report::new(true));
        assert!(end.is_err());
    }
}
