//! What generated messages have in common.
//!
//! [`Structure`] reads and writes fields at a version that its caller has checked; [`Message`] is a whole request or
//! response and checks it.

use std::fmt;

use crate::{ApiKey, DecodeError, EncodeError, Reader, VersionRange, Writer};

/// Fields in wire order: a message or a part of one. Implemented by generated code only.
pub trait Structure: Default {
    /// Fewest bytes that an encoding at `version` has. Array counts are checked against it before memory is taken.
    fn bytes_min(version: i16) -> usize;

    /// Reads all fields that `version` has and leaves the others as they are.
    ///
    /// # Errors
    /// The first thing in the bytes that is not legal.
    fn read_fields(&mut self, reader: &mut Reader, version: i16) -> Result<(), DecodeError>;

    /// Writes all fields that `version` has.
    ///
    /// # Errors
    /// A field that cannot be expressed at `version`.
    fn write_fields(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError>;
}

/// A whole request or response body.
pub trait Message: Structure + Clone + fmt::Debug + PartialEq {
    /// Name in the message definitions, such as `ProduceRequest`.
    const NAME: &'static str;
    /// Versions in the message definitions, unstable ones included.
    const VERSIONS: VersionRange;
    /// First version with compact lengths and tagged fields, if there is one.
    const FLEXIBLE_FROM: Option<i16>;

    /// Reads a body. Whatever follows it stays in the reader: see [`Reader::finish`].
    ///
    /// # Errors
    /// A version outside [`Self::VERSIONS`], or the first thing in the bytes that is not legal.
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(version) {
            let versions = Self::VERSIONS;
            return Err(DecodeError::UnsupportedVersion { message: Self::NAME, version, versions });
        }
        let mut message = Self::default();
        message.read_fields(reader, version)?;
        Ok(message)
    }

    /// Writes a body without a header.
    ///
    /// # Errors
    /// A version outside [`Self::VERSIONS`], or a field that cannot be expressed at it. The writer is then spoilt.
    fn encode(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(version) {
            let versions = Self::VERSIONS;
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version, versions });
        }
        self.write_fields(writer, version)
    }
}

/// A request body: ties its key and its response together.
pub trait Request: Message {
    /// Its API key.
    const KEY: ApiKey;
    /// What it is answered with, at the same version.
    type Response: Response;
}

/// A response body.
pub trait Response: Message {
    /// The API key of its request.
    const KEY: ApiKey;
}

/// What to do with the request type that belongs to a key, see [`with_request`](crate::messages::with_request).
pub trait RequestVisitor {
    /// What it yields.
    type Output;

    /// Called with the request type.
    fn visit<R: Request>(self) -> Self::Output;
}

/// An element of an array.
pub trait Element: Sized {
    /// Fewest bytes that its encoding has.
    fn bytes_min(version: i16, flexible: bool) -> usize;

    /// Reads one.
    ///
    /// # Errors
    /// The first thing in the bytes that is not legal.
    fn read(
        reader: &mut Reader,
        version: i16,
        flexible: bool,
        field: &'static str,
    ) -> Result<Self, DecodeError>;

    /// Writes one.
    ///
    /// # Errors
    /// A value that cannot be expressed.
    fn write(
        &self,
        writer: &mut Writer,
        version: i16,
        flexible: bool,
        field: &'static str,
    ) -> Result<(), EncodeError>;
}

impl<S: Structure> Element for S {
    fn bytes_min(version: i16, _flexible: bool) -> usize {
        S::bytes_min(version)
    }

    fn read(
        reader: &mut Reader,
        version: i16,
        _flexible: bool,
        _field: &'static str,
    ) -> Result<Self, DecodeError> {
        let mut structure = S::default();
        structure.read_fields(reader, version)?;
        Ok(structure)
    }

    fn write(
        &self,
        writer: &mut Writer,
        version: i16,
        _flexible: bool,
        _field: &'static str,
    ) -> Result<(), EncodeError> {
        self.write_fields(writer, version)
    }
}

macro_rules! fixed_size_elements {
    ($($type:ty, $method:ident, $bytes:literal;)*) => { $(
        impl Element for $type {
            fn bytes_min(_version: i16, _flexible: bool) -> usize {
                $bytes
            }

            fn read(reader: &mut Reader, _version: i16, _flexible: bool, field: &'static str) -> Result<Self, DecodeError> {
                reader.$method(field)
            }

            fn write(&self, writer: &mut Writer, _version: i16, _flexible: bool, _field: &'static str) -> Result<(), EncodeError> {
                writer.$method(*self);
                Ok(())
            }
        }
    )* };
}

fixed_size_elements! {
    i8, i8, 1;
    i16, i16, 2;
    i32, i32, 4;
    i64, i64, 8;
    [u8; 16], uuid, 16;
}

impl Element for String {
    fn bytes_min(_version: i16, flexible: bool) -> usize {
        if flexible { 1 } else { 2 }
    }

    fn read(
        reader: &mut Reader,
        _version: i16,
        flexible: bool,
        field: &'static str,
    ) -> Result<Self, DecodeError> {
        reader.string(flexible, field)
    }

    fn write(
        &self,
        writer: &mut Writer,
        _version: i16,
        flexible: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        writer.string(self, flexible, field)
    }
}
