//! Writes values of the Kafka protocol.
//!
//! The writer's own bytes go into one growing buffer. Record and byte fields of [`LINK_BYTES_MIN`] or more
//! are linked. The result is a list of parts to send with a vectored write, or with sendfile if the bytes are
//! external. So the work depends on the number of fields, not on the size of records.

use bytes::{BufMut, Bytes};

use crate::{EncodeError, Records, STRING_BYTES_MAX, TaggedFields};

/// Byte sequences of this length or more become parts of their own. Shorter ones are copied, which is cheaper
/// than another element in a vectored write.
pub const LINK_BYTES_MIN: usize = 4096;

/// Longest byte sequence and array: the length is a signed 32-bit number.
const LENGTH_MAX: usize = i32::MAX as usize;

/// A piece of an encoded message. Pieces are in sending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes in memory.
    Bytes(Bytes),
    /// External bytes that the sender can reach, as given in [`Records::External`].
    External {
        /// Their length in bytes.
        bytes: u32,
        /// The sender's identifier for them.
        tag: u32,
    },
}

impl Part {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::External { bytes, .. } => *bytes as usize,
        }
    }

    /// Reports whether the part has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Spare capacity that is not worth freeing.
const KEPT_SPARE_BYTES: usize = 16 * 1024;

/// A buffer of encoded values.
#[derive(Debug, Default)]
pub struct Writer {
    own: Vec<u8>,
    links: Vec<Link>,
    linked_bytes: u64,
    /// Tagged fields that were started and not ended. Their content moves when their size is known, so
    /// nothing inside is linked.
    open_tags: usize,
}

/// A linked part, which comes before byte `before` of the writer's own.
#[derive(Debug)]
struct Link {
    before: usize,
    part: Part,
}

/// A tagged field that was started, with the position of its content.
#[derive(Debug)]
#[must_use = "a tagged field that was started must be ended"]
pub(crate) struct OpenTag {
    start: usize,
}

macro_rules! fixed_size_values {
    ($($method:ident($type:ty), $put:ident, $what:literal;)*) => { $(
        #[doc = concat!("Writes ", $what, ", big-endian.")]
        #[inline]
        pub fn $method(&mut self, value: $type) {
            self.own.$put(value);
        }
    )* };
}

impl Writer {
    /// Creates an empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty writer with capacity for `bytes` of its own.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { own: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Bytes written so far, including linked and external ones.
    pub fn len(&self) -> u64 {
        self.own.len() as u64 + self.linked_bytes
    }

    /// Reports whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the written parts in order. None is empty.
    pub fn into_parts(self) -> Vec<Part> {
        let Self { mut own, links, .. } = self;
        if own.len() > KEPT_SPARE_BYTES && own.capacity() - own.len() > KEPT_SPARE_BYTES {
            // The frame may wait for a slow reader.
            own.shrink_to_fit();
        }
        let mut own = Bytes::from(own);
        let mut parts = Vec::with_capacity(2 * links.len() + 1);
        let mut taken = 0;
        for Link { before, part } in links {
            let bytes = own.split_to(before - taken);
            taken = before;
            if !bytes.is_empty() {
                parts.push(Part::Bytes(bytes));
            }
            parts.push(part);
        }
        if !own.is_empty() {
            parts.push(Part::Bytes(own));
        }
        parts
    }

    fixed_size_values! {
        i8(i8), put_i8, "a signed byte";
        i16(i16), put_i16, "a signed integer of 16 bits";
        i32(i32), put_i32, "a signed integer of 32 bits";
        i64(i64), put_i64, "a signed integer of 64 bits";
        u16(u16), put_u16, "an unsigned integer of 16 bits";
        u32(u32), put_u32, "an unsigned integer of 32 bits";
        f64(f64), put_f64, "an IEEE 754 number of 64 bits";
    }

    /// Writes a boolean.
    #[inline]
    pub(crate) fn bool(&mut self, value: bool) {
        self.own.put_u8(u8::from(value));
    }

    /// Writes a uuid.
    #[inline]
    pub(crate) fn uuid(&mut self, value: [u8; 16]) {
        self.own.put_slice(&value);
    }

    /// Writes an unsigned varint.
    pub fn varint(&mut self, value: u32) {
        let (bytes, length) = varint_bytes(value);
        self.own.put_slice(&bytes[..length]);
    }

    /// Writes a string.
    ///
    /// # Errors
    /// If the string is longer than `STRING_BYTES_MAX`.
    pub fn string(&mut self, value: &str, flexible: bool, field: &'static str) -> Result<(), EncodeError> {
        let length = i16::try_from(value.len()).map_err(|_| EncodeError::TooLong {
            field,
            length: value.len(),
            max: STRING_BYTES_MAX,
        })?;
        if flexible {
            self.varint(u32::from(length.unsigned_abs()) + 1)
        } else {
            self.i16(length)
        }
        self.own.put_slice(value.as_bytes());
        Ok(())
    }

    /// Writes a nullable string.
    ///
    /// # Errors
    /// If the string is longer than [`STRING_BYTES_MAX`].
    pub(crate) fn nullable_string(
        &mut self,
        value: Option<&str>,
        flexible: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        match value {
            Some(value) => self.string(value, flexible, field)?,
            None if flexible => self.varint(0),
            None => self.i16(-1),
        }
        Ok(())
    }

    /// Writes a byte sequence.
    ///
    /// # Errors
    /// If the byte sequence is too long for its length prefix.
    pub fn bytes(&mut self, value: &Bytes, flexible: bool, field: &'static str) -> Result<(), EncodeError> {
        self.length(value.len(), flexible, field)?;
        if value.len() < LINK_BYTES_MIN || self.open_tags > 0 {
            self.own.put_slice(value);
        } else {
            self.link(Part::Bytes(value.clone()));
        }
        Ok(())
    }

    /// Writes records. Null becomes an empty field.
    ///
    /// # Errors
    /// If the records are too long for their length prefix, or are external within a tagged field.
    pub fn records(
        &mut self,
        value: &Records,
        flexible: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        match value {
            Records::Null => self.length(0, flexible, field),
            Records::Bytes(bytes) => self.bytes(bytes, flexible, field),
            Records::External { .. } if self.open_tags > 0 => Err(EncodeError::ExternalRecords { field }),
            &Records::External { bytes, tag } => {
                self.length(bytes as usize, flexible, field)?;
                if bytes > 0 {
                    self.link(Part::External { bytes, tag });
                }
                Ok(())
            }
        }
    }

    /// Writes nullable records. Null stays null.
    ///
    /// # Errors
    /// If the records are too long for their length prefix, or are external within a tagged field.
    pub(crate) fn nullable_records(
        &mut self,
        value: &Records,
        flexible: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        match value {
            Records::Null => self.null(flexible),
            _ => self.records(value, flexible, field)?,
        }
        Ok(())
    }

    /// Writes the number of tagged fields that follow.
    ///
    /// # Errors
    /// If there are more than the count can express.
    pub(crate) fn tag_count(&mut self, count: usize, field: &'static str) -> Result<(), EncodeError> {
        let count = self.checked_length(count, field)?;
        self.varint(count);
        Ok(())
    }

    /// Starts a tagged field. The caller writes its content next.
    pub(crate) fn begin_tag(&mut self, number: u32) -> OpenTag {
        self.varint(number);
        self.open_tags += 1;
        OpenTag { start: self.own.len() }
    }

    /// Ends a tagged field: puts its size in front of its content. For most fields, this moves the content by
    /// one byte.
    ///
    /// # Errors
    /// If the content is longer than its size can express.
    pub(crate) fn end_tag(&mut self, tag: OpenTag, field: &'static str) -> Result<(), EncodeError> {
        self.open_tags -= 1;
        let end = self.own.len();
        let size = self.checked_length(end - tag.start, field)?;
        let (bytes, length) = varint_bytes(size);
        self.own.put_bytes(0, length);
        self.own.copy_within(tag.start..end, tag.start + length);
        self.own[tag.start..tag.start + length].copy_from_slice(&bytes[..length]);
        Ok(())
    }

    /// Writes the unknown tagged fields that were kept at decoding.
    ///
    /// # Errors
    /// If a field is longer than its size can express.
    pub(crate) fn unknown_tags(
        &mut self,
        fields: &TaggedFields,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        for kept in fields.as_slice() {
            let size = self.checked_length(kept.data.len(), field)?;
            self.varint(kept.tag);
            self.varint(size);
            self.own.put_slice(&kept.data);
        }
        Ok(())
    }

    /// Overwrites the first four bytes with the number of bytes that follow them.
    pub(crate) fn set_length_prefix(&mut self) -> Result<(), EncodeError> {
        let bytes = self.len() - 4;
        let prefix = i32::try_from(bytes).map_err(|_| EncodeError::FrameTooLong { bytes })?;
        self.own[..4].copy_from_slice(&prefix.to_be_bytes());
        Ok(())
    }

    fn link(&mut self, part: Part) {
        self.linked_bytes += part.len() as u64;
        self.links.push(Link { before: self.own.len(), part });
    }

    pub(crate) fn null(&mut self, flexible: bool) {
        if flexible { self.varint(0) } else { self.i32(-1) }
    }

    pub(crate) fn length(
        &mut self,
        length: usize,
        flexible: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        let length = self.checked_length(length, field)?;
        if flexible {
            self.varint(length + 1)
        } else {
            self.u32(length)
        }
        Ok(())
    }

    fn checked_length(&self, length: usize, field: &'static str) -> Result<u32, EncodeError> {
        match u32::try_from(length) {
            Ok(short) if length <= LENGTH_MAX => Ok(short),
            _ => Err(EncodeError::TooLong { field, length, max: LENGTH_MAX }),
        }
    }
}

/// Returns the value of a field that this version must have.
///
/// # Errors
/// [`EncodeError::Null`] if it is `None`.
pub fn required<T>(value: Option<T>, field: &'static str) -> Result<T, EncodeError> {
    value.ok_or(EncodeError::Null { field })
}

fn varint_bytes(mut value: u32) -> ([u8; 5], usize) {
    let mut bytes = [0; 5];
    let mut length = 0;
    while value >= 0x80 {
        bytes[length] = value.to_le_bytes()[0] | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value.to_le_bytes()[0];
    (bytes, length + 1)
}
