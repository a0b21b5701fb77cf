//! Composite values: arrays and nullable structures.

use crate::message::{Element, Structure};
use crate::reader::heap_bytes;
use crate::{DecodeError, EncodeError, Reader, Writer};

impl Reader {
    /// Reads an array.
    ///
    /// # Errors
    /// If the array is null, its count cannot fit in the frame, or an element is invalid.
    pub fn array<E: Element>(
        &mut self,
        version: i16,
        flexible: bool,
        field: &'static str,
    ) -> Result<Vec<E>, DecodeError> {
        let position = self.position();
        self.nullable_array(version, flexible, field)?.ok_or(DecodeError::Null { field, position })
    }

    /// Reads a nullable array.
    ///
    /// # Errors
    /// If the count cannot fit in the frame, or an element is invalid.
    pub(crate) fn nullable_array<E: Element>(
        &mut self,
        version: i16,
        flexible: bool,
        field: &'static str,
    ) -> Result<Option<Vec<E>>, DecodeError> {
        let position = self.position();
        let Some(count) = self.length(flexible, field)? else { return Ok(None) };
        let remaining = self.remaining();
        let fitting = remaining / E::bytes_min(version, flexible).max(1);
        if count > fitting {
            return Err(DecodeError::ArrayTooLong { field, position, count, fitting, remaining });
        }
        self.charge(heap_bytes(count.saturating_mul(size_of::<E>())), field)?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(E::read(self, version, flexible, field)?);
        }
        Ok(Some(elements))
    }

    /// Reads a nullable structure. A negative marker byte means null.
    ///
    /// # Errors
    /// If a field of the structure is invalid.
    pub(crate) fn nullable_structure<S: Structure>(
        &mut self,
        version: i16,
        field: &'static str,
    ) -> Result<Option<S>, DecodeError> {
        if self.i8(field)? < 0 {
            return Ok(None);
        }
        let mut structure = S::default();
        structure.read_fields(self, version)?;
        Ok(Some(structure))
    }
}

impl Writer {
    /// Writes an array.
    ///
    /// # Errors
    /// If an element cannot be encoded.
    pub fn array<E: Element>(
        &mut self,
        value: &[E],
        version: i16,
        flexible: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        self.length(value.len(), flexible, field)?;
        value.iter().try_for_each(|element| element.write(self, version, flexible, field))
    }

    /// Writes a nullable array.
    ///
    /// # Errors
    /// If an element cannot be encoded.
    pub(crate) fn nullable_array<E: Element>(
        &mut self,
        value: Option<&[E]>,
        version: i16,
        flexible: bool,
        field: &'static str,
    ) -> Result<(), EncodeError> {
        match value {
            Some(value) => self.array(value, version, flexible, field)?,
            None => self.null(flexible),
        }
        Ok(())
    }

    /// Writes a nullable structure: the marker byte, then the fields.
    ///
    /// # Errors
    /// If a field cannot be encoded.
    pub(crate) fn nullable_structure<S: Structure>(
        &mut self,
        value: Option<&S>,
        version: i16,
    ) -> Result<(), EncodeError> {
        match value {
            Some(value) => {
                self.i8(1);
                value.write_fields(self, version)?;
            }
            None => self.i8(-1),
        }
        Ok(())
    }
}
