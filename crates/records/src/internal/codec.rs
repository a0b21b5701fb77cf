//! Reading and writing the fields of internal records: the primitive types of Kafka's message format.

use std::ops::RangeInclusive;

use bytes::{BufMut, Bytes, BytesMut};

/// How one version of a message encodes lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Lengths of strings in 16 bits, lengths of bytes and arrays in 32 bits, and no tagged fields.
    Fixed,
    /// Lengths plus one as varints, and tagged fields at the end of each structure (KIP-482).
    Flexible,
}

/// The reason why bytes are not an internal record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InternalRecordError {
    /// The bytes end within a field.
    #[error("an internal record ends within its field '{field}'")]
    Truncated {
        /// The field.
        field: &'static str,
    },
    /// A field with an illegal value.
    #[error("an internal record's field '{field}' {reason}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An unknown version of a key or value.
    #[error("an internal record of {what} has version {found}; supported are {lowest} to {highest}")]
    Version {
        /// The kind of record.
        what: &'static str,
        /// The version found.
        found: i16,
        /// Lowest known version.
        lowest: i16,
        /// Highest known version.
        highest: i16,
    },
}

type Result<T> = std::result::Result<T, InternalRecordError>;

/// Reads the fields of a key or value in order. Allocates no more than a small multiple of the bytes.
#[derive(Clone, Copy, Debug)]
pub struct FieldReader<'a> {
    bytes: &'a [u8],
    layout: Layout,
}

impl<'a> FieldReader<'a> {
    /// Starts at the beginning of `bytes`, with the version. The layout is [`Layout::Fixed`] until it is set.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, layout: Layout::Fixed }
    }

    /// Reads the version at the start of every key and value.
    ///
    /// # Errors
    /// Fewer than two bytes.
    pub fn version(&mut self) -> Result<i16> {
        self.i16("version")
    }

    /// Reads a version and refuses those outside of `known`. Versions from `flexible` on have the flexible
    /// layout.
    ///
    /// # Errors
    /// Truncated, or another version.
    pub(crate) fn version_in(
        &mut self,
        what: &'static str,
        known: RangeInclusive<i16>,
        flexible: i16,
    ) -> Result<i16> {
        let found = self.version()?;
        if !known.contains(&found) {
            let (lowest, highest) = known.into_inner();
            return Err(InternalRecordError::Version { what, found, lowest, highest });
        }
        self.set_layout(if found >= flexible { Layout::Flexible } else { Layout::Fixed });
        Ok(found)
    }

    /// Sets the layout of the fields that follow.
    pub(crate) const fn set_layout(&mut self, layout: Layout) {
        self.layout = layout;
    }

    fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.bytes.split_at_checked(count).ok_or(InternalRecordError::Truncated { field })?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array_of<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        let (taken, rest) =
            self.bytes.split_first_chunk::<N>().ok_or(InternalRecordError::Truncated { field })?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// Reads a signed 8-bit integer.
    ///
    /// # Errors
    /// Truncated.
    pub(crate) fn i8(&mut self, field: &'static str) -> Result<i8> {
        Ok(i8::from_be_bytes(self.array_of(field)?))
    }

    /// Reads a signed 16-bit integer.
    ///
    /// # Errors
    /// Truncated.
    pub fn i16(&mut self, field: &'static str) -> Result<i16> {
        Ok(i16::from_be_bytes(self.array_of(field)?))
    }

    /// Reads a signed 32-bit integer.
    ///
    /// # Errors
    /// Truncated.
    pub fn i32(&mut self, field: &'static str) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array_of(field)?))
    }

    /// Reads a signed 64-bit integer.
    ///
    /// # Errors
    /// Truncated.
    pub fn i64(&mut self, field: &'static str) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array_of(field)?))
    }

    /// Reads a 16-byte id.
    ///
    /// # Errors
    /// Truncated.
    pub(crate) fn uuid(&mut self, field: &'static str) -> Result<[u8; 16]> {
        self.array_of(field)
    }

    /// Reads an unsigned varint of at most 5 bytes.
    ///
    /// # Errors
    /// Truncated, or longer.
    pub(crate) fn unsigned_varint(&mut self, field: &'static str) -> Result<u32> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array_of(field)?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(InternalRecordError::Invalid { field, reason: "is a varint of more than 5 bytes" })
    }

    /// Reads a length in the current layout. `None` is null. `wide` selects 32-bit lengths in the fixed
    /// layout, for bytes and arrays.
    fn length(&mut self, wide: bool, field: &'static str) -> Result<Option<usize>> {
        let length = match self.layout {
            Layout::Flexible => i64::from(self.unsigned_varint(field)?) - 1,
            Layout::Fixed if wide => i64::from(self.i32(field)?),
            Layout::Fixed => i64::from(self.i16(field)?),
        };
        match usize::try_from(length) {
            Ok(length) if length > self.bytes.len() => Err(InternalRecordError::Truncated { field }),
            Ok(length) => Ok(Some(length)),
            Err(_) => Ok(None),
        }
    }

    /// Reads a string that may be null.
    ///
    /// # Errors
    /// Truncated, or not UTF-8.
    pub fn nullable_string(&mut self, field: &'static str) -> Result<Option<&'a str>> {
        let Some(length) = self.length(false, field)? else { return Ok(None) };
        let bytes = self.take(length, field)?;
        let invalid = InternalRecordError::Invalid { field, reason: "is not UTF-8" };
        std::str::from_utf8(bytes).map(Some).map_err(|_| invalid)
    }

    /// Reads a string.
    ///
    /// # Errors
    /// Truncated, not UTF-8, or null.
    pub fn string(&mut self, field: &'static str) -> Result<&'a str> {
        self.nullable_string(field)?.ok_or(InternalRecordError::Invalid { field, reason: "is null" })
    }

    /// Reads bytes that may be null.
    ///
    /// # Errors
    /// Truncated.
    pub fn nullable_bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>> {
        match self.length(true, field)? {
            Some(length) => self.take(length, field).map(Some),
            None => Ok(None),
        }
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// Truncated, or null.
    pub fn bytes(&mut self, field: &'static str) -> Result<&'a [u8]> {
        self.nullable_bytes(field)?.ok_or(InternalRecordError::Invalid { field, reason: "is null" })
    }

    /// Reads an array that may be null, element by element. Its count is limited to the bytes left.
    ///
    /// # Errors
    /// Truncated, or an error of `element`.
    pub(crate) fn nullable_array<T>(
        &mut self,
        field: &'static str,
        mut element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Option<Vec<T>>> {
        let Some(count) = self.length(true, field)? else { return Ok(None) };
        (0..count).map(|_| element(self)).collect::<Result<Vec<T>>>().map(Some)
    }

    /// Reads an array.
    ///
    /// # Errors
    /// Truncated, null, or an error of `element`.
    pub fn array<T>(
        &mut self,
        field: &'static str,
        element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.nullable_array(field, element)?.ok_or(InternalRecordError::Invalid { field, reason: "is null" })
    }

    /// Reads the tagged fields at the end of a structure. The fixed layout has none. Calls `known` with each
    /// tag and a reader of the field's bytes. `known` must ignore unknown tags.
    ///
    /// # Errors
    /// Truncated, or an error of `known`.
    pub(crate) fn tagged(&mut self, mut known: impl FnMut(u32, &mut Self) -> Result<()>) -> Result<()> {
        if self.layout == Layout::Fixed {
            return Ok(());
        }
        for _ in 0..self.unsigned_varint("tagged fields")? {
            let tag = self.unsigned_varint("tag")?;
            let size = self.unsigned_varint("tag size")?;
            let size = usize::try_from(size)
                .map_err(|_| InternalRecordError::Truncated { field: "tagged field" })?;
            let mut field = Self { bytes: self.take(size, "tagged field")?, layout: self.layout };
            known(tag, &mut field)?;
        }
        Ok(())
    }

    /// Skips the tagged fields at the end of a structure.
    ///
    /// # Errors
    /// Truncated.
    pub(crate) fn skip_tagged(&mut self) -> Result<()> {
        self.tagged(|_, _| Ok(()))
    }
}

/// Tailrace's own tagged field in Kafka's records of share groups. It is far from Kafka's tags, which count
/// from 0.
pub(crate) const GENERATION_TAG: u32 = 10_000;

/// Writes one tagged field.
pub(crate) type WriteField<'a> = &'a dyn Fn(&mut FieldWriter);

/// Writes the fields of a key or value in order.
#[derive(Debug)]
pub struct FieldWriter {
    bytes: BytesMut,
    layout: Layout,
}

impl FieldWriter {
    /// Starts with the version, and writes in `layout` from there.
    pub fn new(version: i16, layout: Layout) -> Self {
        let mut bytes = BytesMut::with_capacity(64);
        bytes.put_i16(version);
        Self { bytes, layout }
    }

    /// Returns the bytes written.
    pub fn finish(self) -> Bytes {
        self.bytes.freeze()
    }

    /// Writes a signed 8-bit integer.
    pub(crate) fn i8(&mut self, value: i8) -> &mut Self {
        self.bytes.put_i8(value);
        self
    }

    /// Writes a signed 16-bit integer.
    pub fn i16(&mut self, value: i16) -> &mut Self {
        self.bytes.put_i16(value);
        self
    }

    /// Writes a signed 32-bit integer.
    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.bytes.put_i32(value);
        self
    }

    /// Writes a signed 64-bit integer.
    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.bytes.put_i64(value);
        self
    }

    /// Writes a 16-byte id.
    pub(crate) fn uuid(&mut self, value: [u8; 16]) -> &mut Self {
        self.bytes.put_slice(&value);
        self
    }

    /// Writes an unsigned varint.
    pub(crate) fn unsigned_varint(&mut self, mut value: u32) -> &mut Self {
        while value >= 0x80 {
            self.bytes.put_u8((value as u8 & 0x7f) | 0x80);
            value >>= 7;
        }
        self.bytes.put_u8(value as u8);
        self
    }

    /// Writes a length: of a string if `wide` is false, otherwise of bytes or an array.
    ///
    /// # Panics
    /// If it does not fit the layout's field. Values that arrive over the protocol fit, because its own
    /// lengths are as wide.
    fn length(&mut self, length: Option<usize>, wide: bool) -> &mut Self {
        let length = length.map(|length| i32::try_from(length).expect("lengths fit 31 bits"));
        match (self.layout, length) {
            (Layout::Flexible, length) => {
                self.unsigned_varint(length.map_or(0, |length| length.cast_unsigned() + 1))
            }
            (Layout::Fixed, length) if wide => self.i32(length.unwrap_or(-1)),
            (Layout::Fixed, length) => {
                self.i16(length.map_or(-1, |length| i16::try_from(length).expect("texts fit 15 bits")))
            }
        }
    }

    /// Writes a string that may be null.
    ///
    /// # Panics
    /// In the fixed layout, if it is longer than 32,767 bytes.
    pub fn nullable_string(&mut self, value: Option<&str>) -> &mut Self {
        self.length(value.map(str::len), false);
        self.bytes.put_slice(value.unwrap_or_default().as_bytes());
        self
    }

    /// Writes a string.
    ///
    /// # Panics
    /// In the fixed layout, if it is longer than 32,767 bytes.
    pub fn string(&mut self, value: &str) -> &mut Self {
        self.nullable_string(Some(value))
    }

    /// Writes bytes that may be null.
    ///
    /// # Panics
    /// If they are longer than `i32::MAX`.
    pub fn nullable_bytes(&mut self, value: Option<&[u8]>) -> &mut Self {
        self.length(value.map(<[u8]>::len), true);
        self.bytes.put_slice(value.unwrap_or_default());
        self
    }

    /// Writes bytes.
    ///
    /// # Panics
    /// If they are longer than `i32::MAX`.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.nullable_bytes(Some(value))
    }

    /// Writes a null array.
    pub(crate) fn null_array(&mut self) -> &mut Self {
        self.length(None, true)
    }

    /// Writes an array, element by element.
    ///
    /// # Panics
    /// If it has more than `i32::MAX` elements.
    pub fn array<T>(
        &mut self,
        elements: impl ExactSizeIterator<Item = T>,
        mut element: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        self.length(Some(elements.len()), true);
        elements.for_each(|value| element(self, value));
        self
    }

    /// Ends a structure without tagged fields. Takes no byte in the fixed layout.
    pub(crate) fn no_tags(&mut self) -> &mut Self {
        match self.layout {
            Layout::Flexible => self.unsigned_varint(0),
            Layout::Fixed => self,
        }
    }

    /// Ends a structure with tagged fields, ascending by tag. A function writes each field into a separate
    /// writer.
    ///
    /// # Panics
    /// In the fixed layout, which has no tags.
    pub(crate) fn tags(&mut self, fields: &[(u32, WriteField<'_>)]) -> &mut Self {
        assert!(self.layout == Layout::Flexible, "tagged fields in a fixed layout");
        self.unsigned_varint(u32::try_from(fields.len()).expect("few tagged fields"));
        for (tag, write) in fields {
            let mut field = Self { bytes: BytesMut::new(), layout: self.layout };
            write(&mut field);
            self.unsigned_varint(*tag);
            self.unsigned_varint(u32::try_from(field.bytes.len()).expect("tagged fields fit 32 bits"));
            self.bytes.put_slice(&field.bytes);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(layout: Layout) -> Bytes {
        let mut writer = FieldWriter::new(3, layout);
        writer.string("group").nullable_string(None).bytes(b"bytes").nullable_bytes(None).i64(-5);
        writer.array([1, 300].into_iter(), |writer, value| {
            writer.i32(value).no_tags();
        });
        writer.no_tags();
        writer.finish()
    }

    fn read(bytes: &[u8], layout: Layout) -> Result<()> {
        let mut reader = FieldReader::new(bytes);
        let flexible = if layout == Layout::Flexible { 3 } else { 4 };
        assert_eq!(reader.version_in("a sample", 0..=3, flexible)?, 3);
        assert_eq!(reader.string("a")?, "group");
        assert_eq!(reader.nullable_string("b")?, None);
        assert_eq!(reader.bytes("c")?, b"bytes");
        assert_eq!(reader.nullable_bytes("d")?, None);
        assert_eq!(reader.i64("e")?, -5);
        let numbers = reader.array("f", |reader| {
            let number = reader.i32("g")?;
            reader.skip_tagged()?;
            Ok(number)
        })?;
        assert_eq!(numbers, [1, 300]);
        reader.skip_tagged()
    }

    #[test]
    fn both_layouts_come_back_and_every_cut_is_an_error() {
        for layout in [Layout::Fixed, Layout::Flexible] {
            let bytes = sample(layout);
            read(&bytes, layout).unwrap();
            for cut in 0..bytes.len() {
                assert!(read(&bytes[..cut], layout).is_err(), "{layout:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_count_beyond_the_bytes_allocates_nothing() {
        let bytes = [0, 0, 0x7f, 0xff, 0xff, 0xff];
        let mut reader = FieldReader::new(&bytes);
        reader.version().unwrap();
        assert!(reader.array("many", |reader| reader.i8("one")).is_err());
    }

    #[test]
    fn unknown_tags_are_skipped_and_known_ones_read() {
        let mut writer = FieldWriter::new(0, Layout::Flexible);
        let (seven, later): (WriteField<'_>, WriteField<'_>) = (
            &|field| {
                field.i32(7);
            },
            &|field| {
                field.string("later");
            },
        );
        writer.tags(&[(0, seven), (9, later)]);
        let bytes = writer.finish();
        let mut reader = FieldReader::new(&bytes);
        reader.version_in("tags", 0..=0, 0).unwrap();
        let mut found = None;
        let read = reader.tagged(|tag, field| {
            if tag == 0 {
                found = Some(field.i32("seven")?);
            }
            Ok(())
        });
        assert_eq!((read, found), (Ok(()), Some(7)));
    }
}
