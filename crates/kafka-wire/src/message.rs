//! Traits of the generated messages.
//!
//! A [`Structure`] reads and writes fields at a version that its caller has checked. A [`Message`] is a whole
//! request or response, and checks the version.

use std::fmt;

use crate::{ApiKey, DecodeError, EncodeError, Reader, VersionRange, Writer};

/// Fields in wire order: a message or a part of one. Only generated code implements it.
pub trait Structure: Default {
    /// Length in bytes of the smallest encoding at `version`. Array counts are checked against it before
    /// memory is allocated.
    fn bytes_min(version: i16) -> usize;

    /// Reads the fields that `version` has and leaves the others unchanged.
    ///
    /// # Errors
    /// The first invalid value in the bytes.
    fn read_fields(&mut self, reader: &mut Reader, version: i16) -> Result<(), DecodeError>;

    /// Writes the fields that `version` has.
    ///
    /// # Errors
    /// A field that cannot be encoded at `version`.
    fn write_fields(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError>;
}

/// A whole request or response body.
pub trait Message: Structure + Clone + fmt::Debug + PartialEq {
    /// Name in the message definitions, such as `ProduceRequest`.
    const NAME: &'static str;
    /// The versions in the message definitions, unstable ones included.
    const VERSIONS: VersionRange;
    /// First version with compact lengths and tagged fields. `None` if no version has them.
    const FLEXIBLE_FROM: Option<i16>;

    /// Reads a body. Bytes after it stay in the reader. See [`Reader::finish`].
    ///
    /// # Errors
    /// A version outside [`Self::VERSIONS`], or the first invalid value in the bytes.
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
    /// A version outside [`Self::VERSIONS`], or a field that cannot be encoded at it. The writer is unusable
    /// after an error.
    fn encode(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(version) {
            let versions = Self::VERSIONS;
            return Err(EncodeError::UnsupportedVersion { message: Self::NAME, version, versions });
        }
        self.write_fields(writer, version)
    }
}

/// A request body, tied to its API key and its response.
pub trait Request: Message {
    /// The API key.
    const KEY: ApiKey;
    /// The response, at the same version.
    type Response: Response;
}

/// A response body.
pub trait Response: Message {
    /// The API key of its request.
    const KEY: ApiKey;

    /// The field `ThrottleTimeMs`, if it has one. It is left out in versions without it.
    fn throttle_time_ms(&mut self) -> Option<&mut i32> {
        None
    }
}

/// Work on the request type of an API key. See [`with_request`](crate::messages::with_request).
pub trait RequestVisitor {
    /// The result of the visit.
    type Output;

    /// Called with the request type.
    fn visit<R: Request>(self) -> Self::Output;
}

/// An element of an array.
pub trait Element: Sized {
    /// Length in bytes of the smallest encoding.
    fn bytes_min(version: i16, flexible: bool) -> usize;

    /// Reads an element.
    ///
    /// # Errors
    /// The first invalid value in the bytes.
    fn read(
        reader: &mut Reader,
        version: i16,
        flexible: bool,
        field: &'static str,
    ) -> Result<Self, DecodeError>;

    /// Writes an element.
    ///
    /// # Errors
    /// A value that cannot be encoded.
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
