//! Reads values of the Kafka protocol from a frame.
//!
//! The frame is a complete [`Bytes`]. Byte fields are slices of it and keep it alive. Nothing here waits for
//! more bytes, and nothing is allocated that the bytes seen so far do not justify:
//!
//! - The count of an array is checked against the remaining bytes and the smallest encoding of its elements.
//! - Every allocation is charged against [`memory_budget_bytes`] first, because a few wire bytes can become
//!   many bytes of memory (an element of two bytes may be a structure of eighty).
//! - Nesting is as deep as the message definitions. The code generator refuses recursive ones.

use bytes::Bytes;

use crate::{DecodeError, Records, TaggedField, TaggedFields};

/// Bytes of memory that decoding may take for each byte of the frame. An ordinary request takes 1 to 8. A
/// request full of one-letter names takes 28. Byte and record fields cost nothing, because they are slices of
/// the frame.
pub const MEMORY_BYTES_PER_FRAME_BYTE: usize = 32;

/// Bytes of memory that decoding may take in addition, so that small requests of unusual shape never meet the
/// limit.
pub(crate) const MEMORY_BYTES_FREE: usize = 64 * 1024;

/// Longest string in bytes. Kafka refuses longer ones even where the length prefix could express them.
pub(crate) const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// Returns the heap memory that an allocation of `bytes` takes. Allocators keep a length beside each
/// allocation, and the smallest one is 32 bytes.
pub(crate) const fn heap_bytes(bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    let piece = bytes.saturating_add(8).saturating_add(15) & !15;
    if piece < 32 { 32 } else { piece }
}

/// Returns the memory in bytes that decoding a frame of `frame_bytes` may take, beyond the frame itself.
pub const fn memory_budget_bytes(frame_bytes: usize) -> usize {
    frame_bytes.saturating_mul(MEMORY_BYTES_PER_FRAME_BYTE).saturating_add(MEMORY_BYTES_FREE)
}

/// Most unknown tagged fields in one frame. Newer clients may send some. A frame full of them costs more to
/// decode than anything it could ask for.
pub const UNKNOWN_TAGS_MAX: usize = 1024;

/// A position within a frame, and the remaining budget for decoding it.
#[derive(Clone, Debug)]
pub struct Reader {
    frame: Bytes,
    position: usize,
    memory_budget: usize,
    memory_left: usize,
    unknown_tags_left: usize,
}

/// A tagged field whose number and size have been read. Its content comes next.
#[derive(Clone, Copy, Debug)]
pub struct Tag {
    /// The field's number.
    pub number: u32,
    end: usize,
}

macro_rules! fixed_size_values {
    ($($method:ident -> $type:ty, $what:literal;)*) => { $(
        #[doc = concat!("Reads ", $what, ", big-endian.")]
        ///
        /// # Errors
        /// Too few bytes are left.
        #[inline]
        pub fn $method(&mut self, field: &'static str) -> Result<$type, DecodeError> {
            Ok(<$type>::from_be_bytes(self.fixed(field)?))
        }
    )* };
}

impl Reader {
    /// Creates a reader at the first byte of `frame`, which has no length prefix. The memory budget follows
    /// from the frame's length.
    pub fn new(frame: Bytes) -> Self {
        let memory_budget = memory_budget_bytes(frame.len());
        Self {
            frame,
            position: 0,
            memory_budget,
            memory_left: memory_budget,
            unknown_tags_left: UNKNOWN_TAGS_MAX,
        }
    }

    /// Limits the memory that decoding may take to `bytes`, however long the frame is. Call this before
    /// reading anything that takes memory.
    pub fn limit_memory(&mut self, bytes: usize) {
        self.memory_budget = self.memory_budget.min(bytes);
        self.memory_left = self.memory_left.min(bytes);
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.frame.len() - self.position
    }

    /// Bytes of memory that decoding has taken so far, beyond the frame itself. This is an upper bound,
    /// because the memory of a replaced field still counts.
    pub fn memory_bytes(&self) -> usize {
        self.memory_budget - self.memory_left
    }

    /// Checks that the whole frame has been read.
    ///
    /// # Errors
    /// [`DecodeError::TrailingBytes`] if bytes are left.
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            remaining => Err(DecodeError::TrailingBytes { position: self.position, remaining }),
        }
    }

    fixed_size_values! {
        i8 -> i8, "a signed byte";
        i16 -> i16, "a signed integer of 16 bits";
        i32 -> i32, "a signed integer of 32 bits";
        i64 -> i64, "a signed integer of 64 bits";
        u16 -> u16, "an unsigned integer of 16 bits";
        u32 -> u32, "an unsigned integer of 32 bits";
        f64 -> f64, "an IEEE 754 number of 64 bits";
    }

    /// Reads a boolean. As in Kafka, every byte but 0 is true.
    ///
    /// # Errors
    /// If no byte is left.
    #[inline]
    pub(crate) fn bool(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        Ok(self.i8(field)? != 0)
    }

    /// Reads a uuid.
    ///
    /// # Errors
    /// If fewer than 16 bytes are left.
    #[inline]
    pub(crate) fn uuid(&mut self, field: &'static str) -> Result<[u8; 16], DecodeError> {
        self.fixed(field)
    }

    /// Reads an unsigned varint: seven bits per byte, low bits first.
    ///
    /// # Errors
    /// If the varint is truncated, or its value has more than 32 bits.
    pub fn varint(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let position = self.position;
        let mut value = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.fixed(field)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| DecodeError::VarintTooLong { field, position });
            }
        }
        Err(DecodeError::VarintTooLong { field, position })
    }

    /// Reads a string.
    ///
    /// # Errors
    /// If the string is null, too long, truncated, or not UTF-8.
    pub fn string(&mut self, flexible: bool, field: &'static str) -> Result<String, DecodeError> {
        let position = self.position;
        self.nullable_string(flexible, field)?.ok_or(DecodeError::Null { field, position })
    }

    /// Reads a nullable string.
    ///
    /// # Errors
    /// If the string is too long, truncated, or not UTF-8.
    pub(crate) fn nullable_string(
        &mut self,
        flexible: bool,
        field: &'static str,
    ) -> Result<Option<String>, DecodeError> {
        let length = if flexible { self.length_compact(field)? } else { self.length_i16(field)? };
        let Some(bytes) = length else { return Ok(None) };
        let position = self.position;
        if bytes > STRING_BYTES_MAX {
            return Err(DecodeError::StringTooLong { field, position, bytes });
        }
        self.need(bytes, field)?;
        self.charge(heap_bytes(bytes), field)?;
        let text = std::str::from_utf8(&self.frame[position..position + bytes])
            .map_err(|error| DecodeError::NotUtf8 { field, position: position + error.valid_up_to() })?
            .to_owned();
        self.position += bytes;
        Ok(Some(text))
    }

    /// Reads a byte sequence as a slice of the frame.
    ///
    /// # Errors
    /// If the byte sequence is null or truncated.
    pub fn bytes(&mut self, flexible: bool, field: &'static str) -> Result<Bytes, DecodeError> {
        let position = self.position;
        self.nullable_bytes(flexible, field)?.ok_or(DecodeError::Null { field, position })
    }

    /// Reads a nullable byte sequence as a slice of the frame.
    ///
    /// # Errors
    /// If the byte sequence is truncated.
    pub(crate) fn nullable_bytes(
        &mut self,
        flexible: bool,
        field: &'static str,
    ) -> Result<Option<Bytes>, DecodeError> {
        self.length(flexible, field)?.map(|bytes| self.slice(bytes, field)).transpose()
    }

    /// Reads records as a slice of the frame.
    ///
    /// # Errors
    /// If the records are null or truncated.
    pub fn records(&mut self, flexible: bool, field: &'static str) -> Result<Records, DecodeError> {
        Ok(Records::Bytes(self.bytes(flexible, field)?))
    }

    /// Reads nullable records as a slice of the frame.
    ///
    /// # Errors
    /// If the records are truncated.
    pub(crate) fn nullable_records(
        &mut self,
        flexible: bool,
        field: &'static str,
    ) -> Result<Records, DecodeError> {
        Ok(self.nullable_bytes(flexible, field)?.map_or(Records::Null, Records::Bytes))
    }

    /// Reads the number of tagged fields that follow.
    ///
    /// # Errors
    /// If the count is truncated or cannot fit in the frame.
    pub(crate) fn tag_count(&mut self, field: &'static str) -> Result<usize, DecodeError> {
        let position = self.position;
        let count = self.varint(field)? as usize;
        let remaining = self.remaining();
        let fitting = remaining / TaggedField::BYTES_MIN;
        if count > fitting {
            return Err(DecodeError::ArrayTooLong { field, position, count, fitting, remaining });
        }
        Ok(count)
    }

    /// Reads the number and the size of a tagged field.
    ///
    /// # Errors
    /// If the tagged field is truncated.
    pub fn tag(&mut self, field: &'static str) -> Result<Tag, DecodeError> {
        let number = self.varint(field)?;
        let bytes = self.varint(field)? as usize;
        self.need(bytes, field)?;
        Ok(Tag { number, end: self.position + bytes })
    }

    /// Checks that the content of `tag` has been read exactly to its end.
    ///
    /// # Errors
    /// If the position is before or after the end.
    pub(crate) fn tag_end(&self, tag: Tag, field: &'static str) -> Result<(), DecodeError> {
        if self.position == tag.end {
            return Ok(());
        }
        Err(DecodeError::TagSize { field, position: self.position, expected_end: tag.end })
    }

    /// Reads the content of an unknown tagged field and keeps it in `fields`.
    ///
    /// # Errors
    /// If there are too many unknown fields, or keeping this one exceeds the memory budget.
    pub(crate) fn unknown_tag(
        &mut self,
        tag: Tag,
        fields: &mut TaggedFields,
        field: &'static str,
    ) -> Result<(), DecodeError> {
        let position = self.position;
        self.unknown_tags_left = self
            .unknown_tags_left
            .checked_sub(1)
            .ok_or(DecodeError::TooManyUnknownTags { field, position, max: UNKNOWN_TAGS_MAX })?;
        self.charge(TaggedFields::PUSH_BYTES_MAX, field)?;
        let data = self.slice(tag.end.saturating_sub(self.position), field)?;
        fields.push(TaggedField { tag: tag.number, data });
        Ok(())
    }

    /// Reads the tagged fields of a structure that has no known ones at this version.
    ///
    /// # Errors
    /// If a field is truncated, or keeping the fields exceeds the memory budget.
    pub(crate) fn unknown_tags(&mut self, field: &'static str) -> Result<TaggedFields, DecodeError> {
        let mut fields = TaggedFields::default();
        for _ in 0..self.tag_count(field)? {
            let tag = self.tag(field)?;
            self.unknown_tag(tag, &mut fields, field)?;
        }
        Ok(fields)
    }

    /// Reads a string with a 16-bit length. Like Java, replaces anything that is not UTF-8.
    pub(crate) fn nullable_string_lossy(
        &mut self,
        field: &'static str,
    ) -> Result<Option<String>, DecodeError> {
        let Some(bytes) = self.length_i16(field)? else { return Ok(None) };
        let raw = self.slice(bytes, field)?;
        // A replacement character takes three bytes for one, and a growing string holds up to three times its
        // length.
        self.charge(heap_bytes(bytes.saturating_mul(9)), field)?;
        Ok(Some(String::from_utf8_lossy(&raw).into_owned()))
    }

    /// Returns the API key and version, the first four bytes of every request, without advancing.
    /// ~66|Too few|If too few
    pub(crate) fn peek_key_and_version(&mut self) -> Result<(i16, i16), DecodeError> {
        let position = self.position;
        let key = self.i16("RequestHeader.api_key")?;
        let version = self.i16("RequestHeader.api_version")?;
        self.position = position;
        Ok((key, version))
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        match self.frame[self.position..].first_chunk::<N>() {
            Some(chunk) => {
                self.position += N;
                Ok(*chunk)
            }
            None => Err(self.truncated(N, field)),
        }
    }

    fn slice(&mut self, bytes: usize, field: &'static str) -> Result<Bytes, DecodeError> {
        self.need(bytes, field)?;
        let start = self.position;
        self.position += bytes;
        Ok(self.frame.slice(start..self.position))
    }

    pub(crate) fn length(
        &mut self,
        flexible: bool,
        field: &'static str,
    ) -> Result<Option<usize>, DecodeError> {
        if flexible { self.length_compact(field) } else { self.length_i32(field) }
    }

    fn length_compact(&mut self, field: &'static str) -> Result<Option<usize>, DecodeError> {
        Ok((self.varint(field)? as usize).checked_sub(1))
    }

    fn length_i16(&mut self, field: &'static str) -> Result<Option<usize>, DecodeError> {
        let position = self.position;
        let length = i32::from(self.i16(field)?);
        length_or_null(length, position, field)
    }

    fn length_i32(&mut self, field: &'static str) -> Result<Option<usize>, DecodeError> {
        let position = self.position;
        let length = self.i32(field)?;
        length_or_null(length, position, field)
    }

    fn need(&self, bytes: usize, field: &'static str) -> Result<(), DecodeError> {
        if bytes <= self.remaining() { Ok(()) } else { Err(self.truncated(bytes, field)) }
    }

    pub(crate) fn charge(&mut self, wanted: usize, field: &'static str) -> Result<(), DecodeError> {
        let left = self.memory_left;
        match left.checked_sub(wanted) {
            Some(rest) => {
                self.memory_left = rest;
                Ok(())
            }
            None => Err(DecodeError::MemoryBudget { field, position: self.position, wanted, left }),
        }
    }

    #[cold]
    fn truncated(&self, needed: usize, field: &'static str) -> DecodeError {
        DecodeError::Truncated { field, position: self.position, needed, remaining: self.remaining() }
    }
}

fn length_or_null(length: i32, position: usize, field: &'static str) -> Result<Option<usize>, DecodeError> {
    match length {
        -1 => Ok(None),
        _ => usize::try_from(length).map(Some).map_err(|_| DecodeError::NegativeLength {
            field,
            position,
            length,
        }),
    }
}
