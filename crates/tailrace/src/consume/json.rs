//! `-o json`: one object per record and line.
//!
//! Keys and values that are UTF-8 appear as strings. Others appear in Base64, and a field of the same name with `_encoding`
//! says so: `"value":"AAE=","value_encoding":"base64"`.

use std::io::Write as _;

use tailrace_records::Record;

use super::format::Place;
use crate::text::base64;

/// Writes a record, without a line end.
pub(crate) fn write_record(place: Place<'_>, record: &Record<'_>, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    out.extend_from_slice(b"{\"topic\":");
    string(place.topic, out);
    let (partition, offset, timestamp) = (place.partition, record.offset, record.timestamp);
    let _ = write!(out, ",\"partition\":{partition},\"offset\":{offset},\"timestamp\":{timestamp},");
    bytes("key", record.key, out);
    out.push(b',');
    bytes("value", record.value, out);
    out.extend_from_slice(b",\"headers\":[");
    for (index, header) in record.headers.enumerate() {
        out.extend_from_slice(if index > 0 { b",{" } else { b"{" });
        bytes("key", Some(header.key), out);
        out.push(b',');
        bytes("value", header.value, out);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
}

fn bytes(name: &str, content: Option<&[u8]>, out: &mut Vec<u8>) {
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

fn string(text: &str, out: &mut Vec<u8>) {
    // A string always has a JSON form.
    let _ = serde_json::to_writer(out, text);
}
