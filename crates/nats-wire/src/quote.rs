//! Names in error texts, quoted as Go's `%q` does, so that the texts equal nats-server's for any bytes.

use std::fmt::Write as _;

/// Returns `bytes` in quotes. Escapes what is not printable or not UTF-8.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            push_letter(&mut out, letter);
        }
        for byte in chunk.invalid() {
            push_escaped(&mut out, format_args!("\\x{byte:02x}"));
        }
    }
    out.push('"');
    out
}

fn push_letter(out: &mut String, letter: char) {
    let short = match letter {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{b}' => "\\v",
        _ if is_printable(letter) => return out.push(letter),
        _ => "",
    };
    match u32::from(letter) {
        _ if !short.is_empty() => out.push_str(short),
        code @ ..0x80 => push_escaped(out, format_args!("\\x{code:02x}")),
        code @ ..0x1_0000 => push_escaped(out, format_args!("\\u{code:04x}")),
        code => push_escaped(out, format_args!("\\U{code:08x}")),
    }
}

fn push_escaped(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes everything");
}

/// Reports whether Rust prints the letter in a string unescaped. Go does the same, except for a few letters
/// of newer Unicode versions.
fn is_printable(letter: char) -> bool {
    // The letter is not put first, because a combining one is only printed after another letter.
    let text = [b'a'; 1].map(char::from).into_iter().chain([letter]).collect::<String>();
    letter == '\'' || text.escape_debug().count() == 2 && (letter == ' ' || !letter.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of Go 1.26.
    #[test]
    fn names_are_quoted_as_go_quotes_them() {
        for (bytes, expected) in [
            (&b"a.b"[..], r#""a.b""#),
            (b"a\"b\\c'd", r#""a\"b\\c'd""#),
            (b"a\x0bb\x00c\x7f\x1b", r#""a\vb\x00c\x7f\x1b""#),
            (b"\xff\xfea", r#""\xff\xfea""#),
            (b"\xe2\x82", r#""\xe2\x82""#),
            ("é.ü \u{301}".as_bytes(), "\"é.ü \u{301}\""),
            ("\u{a0}\u{200b}\u{2028}".as_bytes(), r#""\u00a0\u200b\u2028""#),
            ("\u{e0001}".as_bytes(), r#""\U000e0001""#),
        ] {
            assert_eq!(quoted(bytes), expected);
        }
    }
}
