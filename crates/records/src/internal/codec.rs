//! Reading and writing the fields of internal records: the primitive types of Kafka's message format.

use std::ops::RangeInclusive;

use bytes::{BufMut, Bytes, BytesMut};

/// How lengths are written in one version of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Lengths of strings in 16 bits, of bytes and arrays in 32; no tagged fields.
    Fixed,
    /// Lengths as varints, one more than they are, and tagged fields at the end of each structure (KIP-482).
    Flexible,
}

/// Why bytes are no internal record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InternalRecordError {
    /// The bytes end within a field.
    #[error("an internal record ends within its field '{field}'")]
    Truncated {
        /// The field.
        field: &'static str,
    },
    /// A field holds what it cannot hold.
    #[error("an internal record's field '{field}' {reason}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A version of a key or value that this build does not know.
    #[error("an internal record of {what} has version {found}, known are {lowest} to {highest}")]
    Version {
        /// What it is about.
        what: &'static str,
        /// The version found.
        found: i16,
        /// Lowest known.
        lowest: i16,
        /// Highest known.
        highest: i16,
    },
}

type Result<T> = std::result::Result<T, InternalRecordError>;

/// Reads the fields of a key or value one after the other. Allocates no more than a small multiple of the bytes.
#[derive(Clone, Copy, Debug)]
pub struct FieldReader<'a> {
    bytes: &'a [u8],
    layout: Layout,
}

impl<'a> FieldReader<'a> {
    /// Begins at the start of `bytes`, where the version is. Its layout is [`Layout::Fixed`] until it is set.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, layout: Layout::Fixed }
    }

    /// Reads the version that every key and value begins with.
    ///
    /// # Errors
    /// There are fewer than two bytes.
    pub fn version(&mut self) -> Result<i16> {
        self.i16("version")
    }

    /// Reads a version and refuses those that are not among `known`. From `flexible` on the layout is flexible.
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

    /// How lengths are read from here on.
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

    /// 8 bits, signed.
    ///
    /// # Errors
    /// Truncated.
    pub(crate) fn i8(&mut self, field: &'static str) -> Result<i8> {
        Ok(i8::from_be_bytes(self.array_of(field)?))
    }

    /// 16 bits, signed.
    ///
    /// # Errors
    /// Truncated.
    pub fn i16(&mut self, field: &'static str) -> Result<i16> {
        Ok(i16::from_be_bytes(self.array_of(field)?))
    }

    /// 32 bits, signed.
    ///
    /// # Errors
    /// Truncated.
    pub fn i32(&mut self, field: &'static str) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array_of(field)?))
    }

    /// 64 bits, signed.
    ///
    /// # Errors
    /// Truncated.
    pub fn i64(&mut self, field: &'static str) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array_of(field)?))
    }

    /// 16 bytes that identify something.
    ///
    /// # Errors
    /// Truncated.
    pub fn uuid(&mut self, field: &'static str) -> Result<[u8; 16]> {
        self.array_of(field)
    }

    /// An unsigned varint of at most 5 bytes.
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

    /// A length in the present layout; `None` is null. `wide` is how bytes and arrays count in the fixed layout.
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

    /// A text that may be null.
    ///
    /// # Errors
    /// Truncated, or not UTF-8.
    pub fn nullable_string(&mut self, field: &'static str) -> Result<Option<&'a str>> {
        let Some(length) = self.length(false, field)? else { return Ok(None) };
        let bytes = self.take(length, field)?;
        let invalid = InternalRecordError::Invalid { field, reason: "is not UTF-8" };
        std::str::from_utf8(bytes).map(Some).map_err(|_| invalid)
    }

    /// A text.
    ///
    /// # Errors
    /// Truncated, not UTF-8, or null.
    pub fn string(&mut self, field: &'static str) -> Result<&'a str> {
        self.nullable_string(field)?.ok_or(InternalRecordError::Invalid { field, reason: "is null" })
    }

    /// Bytes that may be null.
    ///
    /// # Errors
    /// Truncated.
    pub fn nullable_bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>> {
        match self.length(true, field)? {
            Some(length) => self.take(length, field).map(Some),
            None => Ok(None),
        }
    }

    /// Bytes.
    ///
    /// # Errors
    /// Truncated, or null.
    pub fn bytes(&mut self, field: &'static str) -> Result<&'a [u8]> {
        self.nullable_bytes(field)?.ok_or(InternalRecordError::Invalid { field, reason: "is null" })
    }

    /// An array that may be null, element by element. Its count is no larger than the bytes that are left.
    ///
    /// # Errors
    /// Truncated, or what `element` says.
    pub(crate) fn nullable_array<T>(
        &mut self,
        field: &'static str,
        mut element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Option<Vec<T>>> {
        let Some(count) = self.length(true, field)? else { return Ok(None) };
        (0..count).map(|_| element(self)).collect::<Result<Vec<T>>>().map(Some)
    }

    /// An array.
    ///
    /// # Errors
    /// Truncated, null, or what `element` says.
    pub fn array<T>(
        &mut self,
        field: &'static str,
        element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.nullable_array(field, element)?.ok_or(InternalRecordError::Invalid { field, reason: "is null" })
    }

    /// The tagged fields at the end of a structure; in the fixed layout there are none. `known` is given the tag and a
    /// reader of the field's bytes; it leaves alone what it does not know.
    ///
    /// # Errors
    /// Truncated, or what `known` says.
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

/// The tagged field of ours in Kafka's records of share groups: far from the tags that Kafka gives, which count from 0.
pub(crate) const GENERATION_TAG: u32 = 10_000;

/// Writes one tagged field.
pub(crate) type WriteField<'a> = &'a dyn Fn(&mut FieldWriter);

/// Writes the fields of a key or value one after the other.
#[derive(Debug)]
pub struct FieldWriter {
    bytes: BytesMut,
    layout: Layout,
}

impl FieldWriter {
    /// Begins with the version, and writes in `layout` from there.
    pub fn new(version: i16, layout: Layout) -> Self {
        let mut bytes = BytesMut::with_capacity(64);
        bytes.put_i16(version);
        Self { bytes, layout }
    }

    /// What was written.
    pub fn finish(self) -> Bytes {
        self.bytes.freeze()
    }

    /// 8 bits, signed.
    pub(crate) fn i8(&mut self, value: i8) -> &mut Self {
        self.bytes.put_i8(value);
        self
    }

    /// 16 bits, signed.
    pub fn i16(&mut self, value: i16) -> &mut Self {
        self.bytes.put_i16(value);
        self
    }

    /// 32 bits, signed.
    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.bytes.put_i32(value);
        self
    }

    /// 64 bits, signed.
    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.bytes.put_i64(value);
        self
    }

    /// 16 bytes that identify something.
    pub fn uuid(&mut self, value: [u8; 16]) -> &mut Self {
        self.bytes.put_slice(&value);
        self
    }

    /// An unsigned varint.
    pub(crate) fn unsigned_varint(&mut self, mut value: u32) -> &mut Self {
        while value >= 0x80 {
            self.bytes.put_u8((value as u8 & 0x7f) | 0x80);
            value >>= 7;
        }
        self.bytes.put_u8(value as u8);
        self
    }

    /// A length of a text (`wide` false), or of bytes or an array.
    ///
    /// # Panics
    /// If it does not fit the layout's field. What comes in over the protocol fits: its own lengths are as wide.
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

    /// A text that may be null.
    ///
    /// # Panics
    /// In the fixed layout, if it is longer than 32,767 bytes.
    pub fn nullable_string(&mut self, value: Option<&str>) -> &mut Self {
        self.length(value.map(str::len), false);
        self.bytes.put_slice(value.unwrap_or_default().as_bytes());
        self
    }

    /// A text.
    ///
    /// # Panics
    /// In the fixed layout, if it is longer than 32,767 bytes.
    pub fn string(&mut self, value: &str) -> &mut Self {
        self.nullable_string(Some(value))
    }

    /// Bytes that may be null.
    ///
    /// # Panics
    /// If they are longer than `i32::MAX`.
    pub fn nullable_bytes(&mut self, value: Option<&[u8]>) -> &mut Self {
        self.length(value.map(<[u8]>::len), true);
        self.bytes.put_slice(value.unwrap_or_default());
        self
    }

    /// Bytes.
    ///
    /// # Panics
    /// If they are longer than `i32::MAX`.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.nullable_bytes(Some(value))
    }

    /// An array that is null.
    pub(crate) fn null_array(&mut self) -> &mut Self {
        self.length(None, true)
    }

    /// An array, element by element.
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

    /// The end of a structure without tagged fields; in the fixed layout it takes no byte.
    pub(crate) fn no_tags(&mut self) -> &mut Self {
        match self.layout {
            Layout::Flexible => self.unsigned_varint(0),
            Layout::Fixed => self,
        }
    }

    /// The end of a structure with tagged fields, ascending by tag. Each is written by a function into a writer of its own.
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
