//! Go's `%q`: a text in quotation marks with escapes.

use std::fmt::Write;

/// The bytes as `%q` prints them. Bytes that are not UTF-8 become `\xNN`.
pub(crate) fn quote(mut bytes: &[u8]) -> String {
    let mut quoted = String::with_capacity(bytes.len() + 2);
    quoted.push('"');
    while !bytes.is_empty() {
        let (text, rest) = valid_start(bytes);
        text.chars().for_each(|letter| push(&mut quoted, letter, '"'));
        bytes = rest;
        if let Some((byte, rest)) = bytes.split_first() {
            let _ = write!(quoted, "\\x{byte:02x}");
            bytes = rest;
        }
    }
    quoted.push('"');
    quoted
}

/// The byte as the JSON parser of Go names it in errors.
pub(crate) fn quote_char(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let mut quoted = String::from("'");
            push(&mut quoted, char::from(byte), '"');
            quoted.push('\'');
            quoted
        }
    }
}

fn valid_start(bytes: &[u8]) -> (&str, &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text, &[]),
        Err(error) => {
            let (legal, rest) = bytes.split_at(error.valid_up_to());
            (std::str::from_utf8(legal).unwrap_or_default(), rest)
        }
    }
}

fn push(quoted: &mut String, letter: char, mark: char) {
    let written = match letter {
        '\\' => write!(quoted, "\\\\"),
        _ if letter == mark => write!(quoted, "\\{letter}"),
        '\x07' => write!(quoted, "\\a"),
        '\x08' => write!(quoted, "\\b"),
        '\x0c' => write!(quoted, "\\f"),
        '\n' => write!(quoted, "\\n"),
        '\r' => write!(quoted, "\\r"),
        '\t' => write!(quoted, "\\t"),
        '\x0b' => write!(quoted, "\\v"),
        '\0'..' ' | '\x7f' => write!(quoted, "\\x{:02x}", u32::from(letter)),
        '\u{80}'..='\u{a0}' | '\u{ad}' => write!(quoted, "\\u{:04x}", u32::from(letter)),
        _ => write!(quoted, "{letter}"),
    };
    debug_assert!(written.is_ok(), "a String takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_as_go_does() {
        assert_eq!(quote(b"a\"b\\c\n\x01\xff"), r#""a\"b\\c\n\x01\xff""#);
        assert_eq!(quote("é\u{80}".as_bytes()), "\"é\\u0080\"");
        assert_eq!(quote_char(b'x'), "'x'");
        assert_eq!(quote_char(b'\''), r"'\''");
        assert_eq!(quote_char(b'"'), "'\"'");
        assert_eq!(quote_char(b'\n'), r"'\n'");
        assert_eq!(quote_char(0xff), "'ÿ'");
    }
}
