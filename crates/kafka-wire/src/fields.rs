//! Field types without a counterpart in Rust: records that may be outside memory, and tagged fields.

use bytes::Bytes;

/// The content of a records field. This crate never parses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Records {
    /// No records. Responses encode it as an empty field, because librdkafka refuses null.
    #[default]
    Null,
    /// Records in memory.
    Bytes(Bytes),
    /// Records outside memory that the sender of the frame can reach, for instance in a file. Decoding never
    /// yields them.
    External {
        /// Their length in bytes.
        bytes: u32,
        /// The sender's identifier for them.
        tag: u32,
    },
}

impl Records {
    /// Length in bytes. 0 for null.
    pub fn len(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::External { bytes, .. } => *bytes as usize,
        }
    }

    /// Reports whether there are no bytes of records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The records, if they are in memory.
    pub fn as_bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Null | Self::External { .. } => None,
        }
    }
}

impl From<Bytes> for Records {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

/// A tagged field that the message definitions do not know at this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedField {
    /// The field's number.
    pub tag: u32,
    /// The field's content.
    pub data: Bytes,
}

impl TaggedField {
    /// Size of the smallest tagged field on the wire: its number and its size.
    pub(crate) const BYTES_MIN: usize = 2;
}

/// Unknown tagged fields of a received structure, kept so that they can be passed on. Every structure has
/// this list and it is almost always empty, so the empty list is a single null pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaggedFields(Option<Box<List>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    fields: Vec<TaggedField>,
}

impl TaggedFields {
    /// The most memory in bytes that one more field takes, averaged over all fields: the list and three
    /// slots. It is three because a list that doubles briefly holds the old half beside the new whole.
    pub(crate) const PUSH_BYTES_MAX: usize = size_of::<List>() + 3 * size_of::<TaggedField>();

    /// The fields in the order in which they arrived.
    pub fn as_slice(&self) -> &[TaggedField] {
        self.0.as_ref().map_or(&[], |list| &list.fields)
    }

    /// The content of a field.
    pub fn get(&self, tag: u32) -> Option<&Bytes> {
        self.as_slice().iter().find(|field| field.tag == tag).map(|field| &field.data)
    }

    /// A list with a single field.
    pub fn of(tag: u32, data: Bytes) -> Self {
        Self(Some(Box::new(List { fields: vec![TaggedField { tag, data }] })))
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Reports whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Appends a field. Numbers must ascend, and be above those that the message definitions use.
    pub fn push(&mut self, field: TaggedField) {
        match &mut self.0 {
            Some(list) => list.fields.push(field),
            None => self.0 = Some(Box::new(List { fields: vec![field] })),
        }
    }
}
