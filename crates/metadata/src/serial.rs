//! How the ids of `tailrace_types`, which know no encoding, are written in commands: as plain numbers and texts.
//!
//! For `#[serde(with = "crate::serial")]`, or `tailrace_metadata::serial` for what nodes ask each other's coordinators.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tailrace_types::{NodeId, Offset, PartitionId, ReplicaId, TimestampMs, TopicId};

/// A value that is written as another one.
pub trait Plain: Sized {
    /// What is written.
    type Form: Serialize + for<'de> Deserialize<'de>;

    /// What to write.
    fn form(&self) -> Self::Form;

    /// What was written; `None` for what never was.
    fn of(form: Self::Form) -> Option<Self>;
}

/// Writes the plain form of a value.
///
/// # Errors
/// The serializer's own.
pub fn serialize<T: Plain, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.form().serialize(serializer)
}

/// Reads a value from its plain form.
///
/// # Errors
/// The deserializer's own, or the form is one that no value has.
pub fn deserialize<'de, T: Plain, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::of(T::Form::deserialize(deserializer)?).ok_or_else(|| serde::de::Error::custom("not an id"))
}

/// The same of values that may be missing: `#[serde(default, with = "crate::serial::optional")]`.
pub mod optional {
    use super::*;

    /// Writes the plain form of a value, or none.
    ///
    /// # Errors
    /// The serializer's own.
    pub fn serialize<T: Plain, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Plain::form).serialize(serializer)
    }

    /// Reads a value from its plain form, if there is one.
    ///
    /// # Errors
    /// The deserializer's own, or the form is one that no value has.
    pub fn deserialize<'de, T: Plain, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        let of = |form| T::of(form).ok_or_else(|| serde::de::Error::custom("not an id"));
        Option::<T::Form>::deserialize(deserializer)?.map(of).transpose()
    }
}

macro_rules! numbers {
    ($($name:ident: $number:ty),*) => { $(
        impl Plain for $name {
            type Form = $number;

            fn form(&self) -> $number {
                self.0
            }

            fn of(number: $number) -> Option<Self> {
                Some($name(number))
            }
        }
    )* };
}

numbers!(NodeId: i32, Offset: i64, PartitionId: i32, ReplicaId: u64, TimestampMs: i64);

impl Plain for TopicId {
    type Form = String;

    fn form(&self) -> String {
        self.to_string()
    }

    fn of(text: String) -> Option<Self> {
        Self::parse(&text)
    }
}

impl Plain for Arc<str> {
    type Form = String;

    fn form(&self) -> String {
        self.to_string()
    }

    fn of(text: String) -> Option<Self> {
        Some(text.into())
    }
}

impl<T: Plain> Plain for Option<T> {
    type Form = Option<T::Form>;

    fn form(&self) -> Self::Form {
        self.as_ref().map(T::form)
    }

    fn of(form: Self::Form) -> Option<Self> {
        match form {
            None => Some(None),
            Some(form) => T::of(form).map(Some),
        }
    }
}

impl<T: Plain> Plain for Vec<T> {
    type Form = Vec<T::Form>;

    fn form(&self) -> Self::Form {
        self.iter().map(T::form).collect()
    }

    fn of(forms: Self::Form) -> Option<Self> {
        forms.into_iter().map(T::of).collect()
    }
}
