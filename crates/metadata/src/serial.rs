//! Encoding of the ids of `tailrace_types` in commands, as plain numbers and texts, and of the types of
//! `tailrace_identity`, whose forms are in `access::forms`. The types themselves know no encoding.
//!
//! Used as `#[serde(with = "crate::serial")]`, or as `tailrace_metadata::serial` by requests between the
//! nodes' coordinators.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tailrace_types::{NodeId, Offset, PartitionId, ReplicaId, TimestampMs, TopicId};

/// A value that is encoded as another type.
pub trait Plain: Sized {
    /// The encoded type.
    type Form: Serialize + for<'de> Deserialize<'de>;

    /// Returns the encoded form.
    fn form(&self) -> Self::Form;

    /// Decodes a value. `None` if no value has this form.
    fn of(form: Self::Form) -> Option<Self>;
}

/// Serializes the plain form of a value.
///
/// # Errors
/// The serializer's own.
pub fn serialize<T: Plain, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.form().serialize(serializer)
}

/// Deserializes a value from its plain form.
///
/// # Errors
/// The deserializer's own, or no value has this form.
pub fn deserialize<'de, T: Plain, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::of(T::Form::deserialize(deserializer)?)
        .ok_or_else(|| serde::de::Error::custom("no value has this form"))
}

/// The same for optional values: `#[serde(default, with = "crate::serial::optional")]`.
pub mod optional {
    use super::*;

    /// Serializes the plain form of a value, or none.
    ///
    /// # Errors
    /// The serializer's own.
    pub fn serialize<T: Plain, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Plain::form).serialize(serializer)
    }

    /// Deserializes a value from its plain form, if there is one.
    ///
    /// # Errors
    /// The deserializer's own, or no value has this form.
    pub fn deserialize<'de, T: Plain, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        let of = |form| T::of(form).ok_or_else(|| serde::de::Error::custom("no value has this form"));
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

/// Bytes are base64: a list of numbers would take three times as much.
impl Plain for Arc<[u8]> {
    type Form = String;

    fn form(&self) -> String {
        STANDARD_NO_PAD.encode(self)
    }

    fn of(text: String) -> Option<Self> {
        STANDARD_NO_PAD.decode(text).ok().map(Into::into)
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
