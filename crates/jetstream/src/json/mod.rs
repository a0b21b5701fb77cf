//! Requests in JSON, read as Go's `encoding/json` reads them, whose texts of errors clients see: field names
//! in any case, unknown fields refused, null for "unchanged", the first error in the order of the text.
//!
//! Values go straight into their types. There is no tree of values, so a hostile body costs no more than
//! what its lists may hold.

mod decode;
mod fields;
mod scan;

pub(crate) use decode::{Abort, Cursor, Decode, Fields, Report, raw_text};
pub(crate) use fields::{can_not_unmarshal, fields, words};
pub(crate) use scan::{Scanner, SyntaxError};

use crate::error::{ApiError, ErrorKind};
use crate::limits::REQUEST_BYTES_MAX;

/// Reads a request strictly, as nats-server's API does: values that follow each other are read into the same
/// request, and unknown fields are errors. An empty text leaves everything as it is.
pub(crate) fn strict<T: Decode>(body: &[u8], go_type: &'static str, request: &mut T) -> Result<(), ApiError> {
    bounded(body)?;
    let mut scanner = Scanner::new(body);
    while let Some(value) = scanner.next_value().map_err(|error| invalid(&in_stream(&error)))? {
        read(value, go_type, request, true)?;
    }
    Ok(())
}

/// Reads one value and ignores unknown fields, as nats-server does in the few places that the API's reader
/// does not cover.
pub(crate) fn lenient<T: Decode>(
    body: &[u8],
    go_type: &'static str,
    request: &mut T,
) -> Result<(), ApiError> {
    bounded(body)?;
    let value = Scanner::new(body).only_value().map_err(|error| invalid(&alone(&error)))?;
    read(value, go_type, request, false)
}

fn read<T: Decode>(
    value: &[u8],
    go_type: &'static str,
    request: &mut T,
    is_strict: bool,
) -> Result<(), ApiError> {
    let mut report = Report::new(is_strict);
    let ended = request.decode(go_type, &mut Cursor::new(value), &mut report);
    match (ended, report.into_first()) {
        (Err(Abort(text)), _) | (Ok(()), Some(text)) => Err(invalid(&text)),
        (Ok(()), None) => Ok(()),
    }
}

fn bounded(body: &[u8]) -> Result<(), ApiError> {
    if body.len() <= REQUEST_BYTES_MAX {
        return Ok(());
    }
    Err(invalid(&format!("request of {} bytes, maximum allowed is {REQUEST_BYTES_MAX}", body.len())))
}

fn invalid(text: &str) -> ApiError {
    ApiError::because(ErrorKind::InvalidJson, text)
}

/// The text of Go's decoder of streams, to which nats-server adds the offset.
fn in_stream(error: &SyntaxError) -> String {
    match error {
        SyntaxError::End => "unexpected EOF".to_owned(),
        SyntaxError::Byte { offset, .. } => format!("{error} at offset {offset}"),
    }
}

fn alone(error: &SyntaxError) -> String {
    match error {
        SyntaxError::End => "unexpected end of JSON input".to_owned(),
        SyntaxError::Byte { .. } => error.to_string(),
    }
}

/// Go's text of what is wrong with the syntax of a single value, if something is.
pub(crate) fn syntax_fault(text: &[u8]) -> Option<String> {
    Scanner::new(text).only_value().err().map(|error| alone(&error))
}

/// Reports whether the body looks like an object or a list. Requests of which all fields are optional are
/// not read otherwise.
pub(crate) fn is_object_or_list(body: &[u8]) -> bool {
    matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Reports whether the body says nothing: empty, or an object without fields.
pub(crate) fn is_empty_request(body: &[u8]) -> bool {
    if body.is_empty() {
        return true;
    }
    let Ok(value) = Scanner::new(body).only_value() else { return false };
    let inside = value.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    inside.is_some_and(|inside| inside.trim_ascii().is_empty())
}
