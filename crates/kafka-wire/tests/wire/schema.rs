//! The content of the message definitions, as data.

/// A request or response.
pub(crate) struct Message {
    pub(crate) key: i16,
    pub(crate) request: bool,
    pub(crate) versions: (i16, i16),
    pub(crate) flexible_from: Option<i16>,
    /// The message itself comes first.
    pub(crate) structures: &'static [Structure],
}

/// A message or a part of one.
pub(crate) struct Structure {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
}

/// A field in wire order.
pub(crate) struct Field {
    pub(crate) kind: Kind,
    pub(crate) versions: (i16, i16),
    pub(crate) nullable: Option<(i16, i16)>,
    pub(crate) tag: Option<u32>,
    pub(crate) default_true: bool,
}

/// The type of a field. Numbers are described by their size in bytes.
pub(crate) enum Kind {
    Bool,
    Number(usize),
    Uuid,
    String,
    Bytes,
    Records,
    Structure(&'static str),
    Array(&'static Kind),
}

impl Message {
    pub(crate) fn name(&self) -> &'static str {
        self.structures[0].name
    }

    pub(crate) fn structure(&self, name: &str) -> &Structure {
        self.structures.iter().find(|structure| structure.name == name).expect("a known structure")
    }

    pub(crate) fn is_flexible(&self, version: i16) -> bool {
        self.flexible_from.is_some_and(|from| version >= from)
    }

    pub(crate) fn all_versions(&self) -> impl Iterator<Item = i16> + use<> {
        self.versions.0..=self.versions.1
    }
}

impl Field {
    pub(crate) fn is_present(&self, version: i16) -> bool {
        within(self.versions, version)
    }

    pub(crate) fn is_nullable(&self, version: i16) -> bool {
        self.nullable.is_some_and(|versions| within(versions, version))
    }
}

fn within((min, max): (i16, i16), version: i16) -> bool {
    min <= version && version <= max
}
