//! Bytes in JSON: UTF-8 as a string, everything else in Base64. In the latter case a second field, with
//! `_encoding` after the name, says so: `"value":"AAE=","value_encoding":"base64"`.

use std::io::Write as _;

use super::base64;

/// Appends a field: its name, which must need no escapes, and the content or null.
pub fn bytes(name: &str, content: Option<&[u8]>, out: &mut Vec<u8>) {
    // Writes to memory do not fail.
    let _ = write!(out, "\"{name}\":");
    match content.map(|content| (content, std::str::from_utf8(content))) {
        None => out.extend_from_slice(b"null"),
        Some((_, Ok(text))) => string(text, out),
        Some((content, Err(_))) => {
            out.push(b'"');
            base64::encode_into(content, out);
            let _ = write!(out, "\",\"{name}_encoding\":\"base64\"");
        }
    }
}

/// Appends a string in quotes.
pub fn string(text: &str, out: &mut Vec<u8>) {
    // A string can always be serialized to JSON.
    let _ = serde_json::to_writer(out, text);
}
