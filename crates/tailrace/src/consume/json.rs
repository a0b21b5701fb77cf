//! `-o json`: one object per record and line.
//!
//! Keys and values that are not UTF-8 are written in Base64, see [`tailrace_cli::text::json`].

use std::io::Write as _;

use tailrace_cli::text::json::{bytes, string};
use tailrace_records::Record;

use super::format::RecordOrigin;

/// Writes a record, without a line end.
pub(crate) fn write_record(place: RecordOrigin<'_>, record: &Record<'_>, out: &mut Vec<u8>) {
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
