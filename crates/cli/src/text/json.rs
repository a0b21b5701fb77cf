//! Bytes in JSON: text as a string; what is not UTF-8 in Base64, and then a field of the same name with `_encoding` says
//! so: `"value":"AAE=","value_encoding":"base64"`.

use std::io::Write as _;

use super::base64;

/// Appends a field: the name, which needs no escapes, and the content or null.
pub fn bytes(name: &str, content: Option<&[u8]>, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
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

/// Appends a string with its quotes.
pub fn string(text: &str, out: &mut Vec<u8>) {
    // A string always has a JSON form.
    let _ = serde_json::to_writer(out, text);
}
