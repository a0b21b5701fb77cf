//! Parsed values and their conversion to Rust types. This module knows no key.

use std::fmt;

/// A value parsed by its key's kind. `Display` writes Kafka's canonical text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// A boolean.
    Boolean(bool),
    /// A short, int or long.
    Number(i64),
    /// A double.
    Double(f64),
    /// A string, class or password.
    Text(String),
    /// A list.
    List(Vec<String>),
}

impl Value {
    /// Returns the canonical text. `None` for null.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Null => None,
            other => Some(other.to_string()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            // `Debug` prints 1.0 as "1.0", as Java does. Only the exponent differs.
            Self::Double(value) => f.write_str(&format!("{value:?}").replace('e', "E")),
            Self::Text(value) => f.write_str(value),
            Self::List(values) => f.write_str(&values.join(",")),
        }
    }
}

/// A Rust type of a field of a typed configuration.
pub(crate) trait FromValue: Sized {
    /// Converts a value that has already passed its key's bounds.
    ///
    /// # Errors
    /// Describes what is wrong with the value, as the reason of a [`super::ConfigError::Invalid`].
    fn from_value(value: Value) -> Result<Self, String>;
}

fn mismatch<T>(expected: &str, found: &Value) -> Result<T, String> {
    Err(format!("expected {expected}, found {found}"))
}

impl FromValue for bool {
    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Boolean(value) => Ok(value),
            other => mismatch("true or false", &other),
        }
    }
}

macro_rules! numbers {
    ($($type:ty),*) => { $(
        impl FromValue for $type {
            fn from_value(value: Value) -> Result<Self, String> {
                let Value::Number(number) = value else { return mismatch("a number", &value) };
                Self::try_from(number)
                    .map_err(|_| format!("Value must be between {} and {}", Self::MIN, Self::MAX))
            }
        }
    )* };
}

numbers!(i16, i32, i64, u16, u32, u64, usize);

impl FromValue for f64 {
    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Double(value) => Ok(value),
            other => mismatch("a number", &other),
        }
    }
}

impl FromValue for String {
    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Text(value) => Ok(value),
            other => mismatch("a string", &other),
        }
    }
}

impl FromValue for Option<String> {
    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(None),
            Value::Text(text) if text.is_empty() => Ok(None),
            other => String::from_value(other).map(Some),
        }
    }
}

impl FromValue for Vec<String> {
    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::List(values) => Ok(values),
            other => mismatch("a list", &other),
        }
    }
}

impl FromValue for Option<Vec<String>> {
    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(None),
            other => Vec::from_value(other).map(Some),
        }
    }
}

macro_rules! optional_numbers {
    ($($type:ty),*) => { $(
        // Kafka writes "no limit" as null or as a negative number.
        impl FromValue for Option<$type> {
            fn from_value(value: Value) -> Result<Self, String> {
                match value {
                    Value::Null => Ok(None),
                    Value::Number(number) if number < 0 => Ok(None),
                    other => <$type>::from_value(other).map(Some),
                }
            }
        }
    )* };
}

optional_numbers!(i64, u64);
