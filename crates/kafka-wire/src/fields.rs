//! Field types that Rust has no ready word for: records that may lie elsewhere, and tagged fields.

use bytes::Bytes;

/// The content of a records field. It is never looked into here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Records {
    /// No records. Responses encode it as an empty field, because librdkafka refuses null.
    #[default]
    Null,
    /// Records in memory.
    Bytes(Bytes),
    /// Records that whoever sends the frame has at hand, for instance in a file. Only ever encoded.
    External {
        /// Their length in bytes.
        bytes: u32,
        /// What the sender knows them by.
        tag: u32,
    },
}

impl Records {
    /// Their length in bytes; null has none.
    pub fn len(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::External { bytes, .. } => *bytes as usize,
        }
    }

    /// True if there is not a byte of records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those in memory.
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
    /// Its number.
    pub tag: u32,
    /// Its content.
    pub data: Bytes,
}

impl TaggedField {
    /// Fewest bytes on the wire: number and size.
    pub(crate) const BYTES_MIN: usize = 2;
}

/// Tagged fields that were received and not understood, kept so that they can be passed on. Almost always empty, and
/// then a single null pointer, because every structure has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaggedFields(Option<Box<List>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    fields: Vec<TaggedField>,
}

impl TaggedFields {
    /// Memory in bytes that one more field may take, averaged over all: the list, and three slots, because a list that
    /// doubles holds the old half beside the new whole for a moment.
    pub(crate) const PUSH_BYTES_MAX: usize = size_of::<List>() + 3 * size_of::<TaggedField>();

    /// The fields in the order they came.
    pub fn as_slice(&self) -> &[TaggedField] {
        self.0.as_ref().map_or(&[], |list| &list.fields)
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds one at the end. Numbers shall ascend and lie above those that the message definitions use.
    pub fn push(&mut self, field: TaggedField) {
        match &mut self.0 {
            Some(list) => list.fields.push(field),
            None => self.0 = Some(Box::new(List { fields: vec![field] })),
        }
    }
}
