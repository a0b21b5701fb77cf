//! The errors of the API: nats-server's table of codes and texts, and the error object that clients get.

use std::borrow::Cow;
use std::fmt;

use serde::ser::{Serialize, SerializeStruct, Serializer};

impl ErrorKind {
    /// The code that clients compare, such as 10059.
    #[must_use]
    pub const fn err_code(self) -> u16 {
        self.row().0
    }

    /// The code like HTTP's, such as 404.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.row().1
    }

    /// The text, with its placeholders.
    #[must_use]
    pub const fn text(self) -> &'static str {
        self.row().2
    }
}

/// An error as an answer of the API has it. Its JSON form has the keys `code`, `err_code` and `description`,
/// and no other: nats.py builds its exception from all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    kind: ErrorKind,
    description: Cow<'static, str>,
}

impl ApiError {
    /// An error whose text has no placeholder.
    #[must_use]
    pub fn new(kind: ErrorKind) -> Self {
        Self { kind, description: Cow::Borrowed(kind.text()) }
    }

    /// An error whose text names facts: pairs of placeholder and value.
    #[must_use]
    pub fn with(kind: ErrorKind, facts: &[(&str, &str)]) -> Self {
        Self { kind, description: Cow::Owned(fill(kind.text(), facts)) }
    }

    /// An error whose only placeholder is `{err}`.
    #[must_use]
    pub fn because(kind: ErrorKind, reason: impl AsRef<str>) -> Self {
        Self::with(kind, &[("{err}", reason.as_ref())])
    }

    /// An error that another node has told.
    #[must_use]
    pub fn told(err_code: u16, description: String) -> Option<Self> {
        let kind = ErrorKind::ALL.iter().copied().find(|kind| kind.err_code() == err_code)?;
        Some(Self { kind, description: Cow::Owned(description) })
    }

    /// The kind of error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The text, without placeholders.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }
}

/// Replaces placeholders. Values are not looked at: one that contains braces stays as it is.
fn fill(text: &str, facts: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        let found = facts.iter().find(|(name, _)| rest.starts_with(name));
        let (name, value) = found.copied().unwrap_or(("{", "{"));
        filled.push_str(value);
        rest = &rest[name.len()..];
    }
    filled.push_str(rest);
    filled
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.description, self.kind.err_code())
    }
}

impl std::error::Error for ApiError {}

impl From<ErrorKind> for ApiError {
    fn from(kind: ErrorKind) -> Self {
        Self::new(kind)
    }
}

impl Serialize for ApiError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("ApiError", 3)?;
        object.serialize_field("code", &self.kind.code())?;
        object.serialize_field("err_code", &self.kind.err_code())?;
        object.serialize_field("description", &self.description)?;
        object.end()
    }
}

mod table;
pub use table::ErrorKind;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_object_has_three_keys() {
        let error = ApiError::new(ErrorKind::StreamNotFound);
        let json = serde_json::to_string(&error).unwrap();
        assert_eq!(json, r#"{"code":404,"err_code":10059,"description":"stream not found"}"#);
    }

    #[test]
    fn placeholders_are_filled_once() {
        let error = ApiError::because(ErrorKind::InvalidJson, "json: unknown field \"{err}\"");
        assert_eq!(error.description(), "invalid JSON: json: unknown field \"{err}\"");
        let facts = [("{prefix}", "a"), ("{subject}", "b")];
        let error = ApiError::with(ErrorKind::StreamExternalDelPrefixOverlaps, &facts);
        assert_eq!(error.description(), "stream external delivery prefix a overlaps with stream subject b");
        assert_eq!(error.to_string(), format!("{} (10022)", error.description()));
    }

    #[test]
    fn an_error_of_another_node_is_the_same_here() {
        let error = ApiError::because(ErrorKind::ConsumerCreate, "why");
        let told = ApiError::told(error.kind().err_code(), error.description().to_owned());
        assert_eq!(told, Some(error));
        assert_eq!(ApiError::told(9, String::new()), None);
    }

    #[test]
    fn codes_are_in_order_and_differ() {
        let codes: Vec<_> = ErrorKind::ALL.iter().map(|kind| kind.err_code()).collect();
        assert!(codes.is_sorted_by(|a, b| a < b));
        assert_eq!(codes.len(), 227);
    }
}
