//! JSON of tokens and key sets, read strictly.
//!
//! A key that stands twice in an object is refused at every level: parsers differ in which of the two they
//! believe, so one that checks and one that uses a token could see different claims (RFC 8725, section 2.4).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

/// Maximum nesting. Keycloak, for example, needs four levels.
const DEPTH_MAX: usize = 16;

/// How much of a text of the client an error shows, in characters.
const SHOWN_CHARS_MAX: usize = 64;

/// A value.
#[derive(Debug)]
pub(super) enum Json {
    Null,
    Bool,
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Object),
}

/// The members of an object.
pub(super) type Object = BTreeMap<String, Json>;

impl Json {
    /// Returns what it is, for errors.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// Returns the text, if it is one.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// What is wrong with a JSON text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// It is not JSON, or not UTF-8.
    #[error("it is not JSON (line {line}, column {column})")]
    Syntax {
        /// The line, counted from 1.
        line: usize,
        /// The column, in bytes and counted from 1.
        column: usize,
    },
    /// A key stands twice in one object.
    #[error("the key {key:?} occurs twice in an object")]
    Twice {
        /// The beginning of the key.
        key: String,
    },
    /// Nested too deeply.
    #[error("it is nested more than {DEPTH_MAX} levels deep")]
    TooDeep,
    /// Too many values.
    #[error("it has more than {values_max} values")]
    TooManyValues {
        /// How many there may be.
        values_max: usize,
    },
    /// A value that is not an object.
    #[error("it is {found}, not an object")]
    NotAnObject {
        /// What it is.
        found: &'static str,
    },
}

/// Reads an object of at most `values_max` values at all levels together. Each value takes at most about 700
/// bytes of memory, plus its text.
pub(super) fn object(text: &[u8], values_max: usize) -> Result<Object, JsonError> {
    let state = State { left: Cell::new(values_max), fault: Cell::new(None) };
    let mut input = serde_json::Deserializer::from_slice(text);
    let read = Value { depth: 0, state: &state }.deserialize(&mut input);
    let read = read.and_then(|value| input.end().map(|()| value));
    match read {
        Ok(Json::Object(members)) => Ok(members),
        Ok(other) => Err(JsonError::NotAnObject { found: other.kind() }),
        Err(error) => Err(match state.fault.take() {
            Some(Fault::Twice(key)) => JsonError::Twice { key },
            Some(Fault::TooDeep) => JsonError::TooDeep,
            Some(Fault::TooManyValues) => JsonError::TooManyValues { values_max },
            None => JsonError::Syntax { line: error.line(), column: error.column() },
        }),
    }
}

/// Returns the beginning of a text that someone else chose, short enough for an error.
pub(super) fn beginning(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

/// Why reading ended, if the syntax is not the reason. serde's errors are only text.
enum Fault {
    Twice(String),
    TooDeep,
    TooManyValues,
}

struct State {
    left: Cell<usize>,
    fault: Cell<Option<Fault>>,
}

impl State {
    fn fail<E: Error>(&self, fault: Fault) -> E {
        self.fault.set(Some(fault));
        E::custom("refused")
    }
}

/// Reads one value at a depth.
#[derive(Clone, Copy)]
struct Value<'a> {
    depth: usize,
    state: &'a State,
}

impl Value<'_> {
    fn inner(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    fn check_depth<E: Error>(self) -> Result<(), E> {
        if self.depth < DEPTH_MAX { Ok(()) } else { Err(self.state.fail(Fault::TooDeep)) }
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = Json;

    fn deserialize<D: serde::Deserializer<'de>>(self, input: D) -> Result<Json, D::Error> {
        let Some(left) = self.state.left.get().checked_sub(1) else {
            return Err(self.state.fail(Fault::TooManyValues));
        };
        self.state.left.set(left);
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Bool)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Number(number as f64))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(Json::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        self.check_depth()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.inner())? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        self.check_depth()?;
        let mut object = Object::new();
        while let Some(key) = members.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(self.state.fail(Fault::Twice(beginning(&key))));
            }
            let value = members.next_value_seed(self.inner())?;
            object.insert(key, value);
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Object, JsonError> {
        object(text.as_bytes(), 20)
    }

    #[test]
    fn a_key_that_occurs_twice_is_refused_at_every_level_and_in_every_spelling() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":2,"\u0061":3}"#,
            r#"{"x":{"a":1,"a":2}}"#,
            r#"{"x":[0,[{"a":1,"a":null}]]}"#,
        ] {
            assert_eq!(read(text).unwrap_err(), JsonError::Twice { key: "a".to_owned() }, "{text}");
        }
        assert!(read(r#"{"a":{"a":[{"a":1},{"a":2}]},"A":1}"#).is_ok());
        let long = format!("{{\"{0}\":1,\"{0}\":1}}", "k".repeat(9_000));
        assert_eq!(read(&long).unwrap_err(), JsonError::Twice { key: "k".repeat(64) });
    }

    #[test]
    fn depth_and_number_of_values_are_bounded() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(read(&nested(16)).is_ok());
        for depth in [17, 18, 129, 100_000] {
            assert_eq!(read(&nested(depth)).unwrap_err(), JsonError::TooDeep);
        }
        let list = |len: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(len - 1));
        assert!(read(&list(18)).is_ok());
        assert_eq!(read(&list(19)).unwrap_err(), JsonError::TooManyValues { values_max: 20 });
    }

    #[test]
    fn only_an_object_and_nothing_after_it_is_accepted() {
        assert!(read(" {} \n").is_ok());
        for text in ["", "{", "{}x", "{} {}", "{'a':1}", r#"{"a":01}"#, r#"{"a":"\ud800"}"#, r#"{"a":1e999}"#]
        {
            assert!(matches!(read(text), Err(JsonError::Syntax { .. })), "{text}: {:?}", read(text));
        }
        assert!(matches!(object(b"{\"a\":\"\xff\"}", 9), Err(JsonError::Syntax { .. })));
        assert_eq!(read("[{}]").unwrap_err(), JsonError::NotAnObject { found: "a list" });
        assert_eq!(read("null").unwrap_err(), JsonError::NotAnObject { found: "null" });
    }
}
