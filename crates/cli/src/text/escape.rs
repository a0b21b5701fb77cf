//! Backslash escapes: parsed from the command line, written to the terminal.

/// Parses `\n`, `\t`, `\r`, `\0`, `\\` and `\xNN`. All other text is taken literally.
///
/// # Errors
/// A backslash precedes any other character, or is the last one.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (&kind, after) = rest.split_first().ok_or("a backslash at the end: write \\\\ for one")?;
        rest = after;
        out.push(match kind {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'0' => 0,
            b'\\' => b'\\',
            b'x' => {
                let (value, after) = hex_byte(rest).ok_or("\\x needs two hexadecimal digits")?;
                rest = after;
                value
            }
            other => {
                return Err(format!("unknown escape \\{}: write \\\\ for a backslash", char::from(other)));
            }
        });
    }
    Ok(out)
}

fn hex_byte(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = bytes.split_first_chunk::<2>()?;
    let text = std::str::from_utf8(digits).ok()?;
    Some((u8::from_str_radix(text, 16).ok()?, rest))
}

/// Quotes `bytes` so that they are readable on a terminal, without loss.
pub fn quote(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "null".to_owned(),
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => format!("{text:?}"),
            Err(_) => format!("\"{}\"", bytes.escape_ascii()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read() {
        assert_eq!(unescape(r"a\tb\n\x00\\ü").unwrap(), "a\tb\n\0\\ü".as_bytes());
        for wrong in [r"\", r"\q", r"\x1", r"\xzz"] {
            unescape(wrong).unwrap_err();
        }
    }

    #[test]
    fn quotes_show_every_byte() {
        assert_eq!(quote(None), "null");
        assert_eq!(quote(Some(b"a\"\n")), r#""a\"\n""#);
        assert_eq!(quote(Some(&[0xff, b'a'])), r#""\xffa""#);
    }
}
