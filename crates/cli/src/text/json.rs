//! Bytes in JSON: UTF-8 as a string, everything else in Base64. In the latter case a second field, with
//! `_encoding` after the name, says so: `"value":"AAE=","value_encoding":"base64"`.

use std::io::Write as _;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;

/// Appends a field: its name, which must need no escapes, and the content or null.
pub fn bytes(name: &str, content: Option<&[u8]>, out: &mut Vec<u8>) {
    // Writes to memory do not fail.
    let _ = write!(out, "\"{name}\":");
    match content.map(|content| (content, std::str::from_utf8(content))) {
        None => out.extend_from_slice(b"null"),
        Some((_, Ok(text))) => string(text, out),
        Some((content, Err(_))) => {
            let encoded = Base64Display::new(content, &STANDARD);
            let _ = write!(out, "\"{encoded}\",\"{name}_encoding\":\"base64\"");
        }
    }
}

/// Appends a string in quotes.
pub fn string(text: &str, out: &mut Vec<u8>) {
    // A string can always be serialized to JSON.
    let _ = serde_json::to_writer(out, text);
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn what_is_not_utf8_is_written_in_base64() {
        let written = |content: Option<&[u8]>| {
            let mut out = Vec::new();
            bytes("value", content, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(None), r#""value":null"#);
        assert_eq!(written(Some(b"a\"b")), r#""value":"a\"b""#);
        assert_eq!(written(Some(&[0xff])), r#""value":"/w==","value_encoding":"base64""#);
        assert_eq!(written(Some(&[0xfb, 0xff, 0])), r#""value":"+/8A","value_encoding":"base64""#);
    }
}
