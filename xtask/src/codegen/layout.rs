//! Resolves the definitions: parses versions and types, lists the structures, and computes the smallest
//! encodings. It rejects everything that the generator cannot express, so that [`emit`](super::emit) only
//! prints.

use serde_json::Value;

use super::definition::{Definition, Field as FieldDefinition};

/// A range of versions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) min: i16,
    pub(super) max: i16,
}

/// A field's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int(&'static str),
    Float,
    Uuid,
    String,
    Bytes,
    Records,
    Structure(String),
    Array(Box<Kind>),
}

/// A request or response.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) name: String,
    pub(super) api_key: i16,
    pub(super) is_request: bool,
    pub(super) versions: Versions,
    pub(super) flexible_from: Option<i16>,
    /// The structures of the message. The message itself is the first.
    pub(super) structures: Vec<Structure>,
}

/// A structure and the versions in which it occurs.
#[derive(Debug)]
pub(super) struct Structure {
    pub(super) name: String,
    pub(super) versions: Versions,
    pub(super) fields: Vec<Field>,
    /// The size of the smallest encoding in each version of the message.
    pub(super) bytes_min: Vec<usize>,
}

/// A field and the versions, within those of its structure, that have it.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) versions: Versions,
    pub(super) nullable: Option<Versions>,
    pub(super) tag: Option<u32>,
    pub(super) ignorable: bool,
    pub(super) default: String,
}

/// An API key with at least one valid version.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) key: i16,
    pub(super) name: String,
    pub(super) versions: Versions,
    pub(super) stable_max: i16,
    pub(super) request_flexible_from: Option<i16>,
    pub(super) response_flexible_from: Option<i16>,
}

impl Versions {
    /// Parses `none`, `3`, `0-4` or `2+`, and intersects the result with `within`.
    fn parse(text: &str, within: Self) -> Result<Option<Self>, String> {
        let number = |text: &str| text.parse::<i16>().map_err(|_| format!("'{text}' is not a version"));
        let parsed = match (text, text.strip_suffix('+'), text.split_once('-')) {
            ("none" | "", _, _) => return Ok(None),
            (_, Some(min), _) => Self { min: number(min)?, max: i16::MAX },
            (_, _, Some((min, max))) => Self { min: number(min)?, max: number(max)? },
            _ => Self { min: number(text)?, max: number(text)? },
        };
        Ok(parsed.intersect(within))
    }

    pub(super) fn intersect(self, other: Self) -> Option<Self> {
        let both = Self { min: self.min.max(other.min), max: self.max.min(other.max) };
        (both.min <= both.max).then_some(both)
    }

    pub(super) fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// The smallest range that includes both.
    fn hull(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

const ALL: Versions = Versions { min: 0, max: i16::MAX };

impl Kind {
    fn parse(text: &str) -> Self {
        if let Some(element) = text.strip_prefix("[]") {
            return Self::Array(Box::new(Self::parse(element)));
        }
        match text {
            "bool" => Self::Bool,
            "int8" => Self::Int("i8"),
            "int16" => Self::Int("i16"),
            "int32" => Self::Int("i32"),
            "int64" => Self::Int("i64"),
            "uint16" => Self::Int("u16"),
            "uint32" => Self::Int("u32"),
            "float64" => Self::Float,
            "uuid" => Self::Uuid,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "records" => Self::Records,
            name => Self::Structure(name.to_owned()),
        }
    }

    /// The name of the structure that this type or its element type is.
    pub(super) fn structure(&self) -> Option<&str> {
        match self {
            Self::Structure(name) => Some(name),
            Self::Array(element) => element.structure(),
            _ => None,
        }
    }
}

impl Message {
    pub(super) fn resolve(definition: &Definition) -> Result<Self, String> {
        let failed = |reason: String| format!("{}: {reason}", definition.name);
        let versions = Versions::parse(&definition.valid_versions, ALL)
            .and_then(|versions| versions.ok_or("it has no versions".to_owned()))
            .map_err(failed)?;
        let flexible = Versions::parse(&definition.flexible_versions, versions).map_err(failed)?;
        let mut message = Self {
            name: definition.name.clone(),
            api_key: definition.api_key.ok_or_else(|| failed("it has no API key".to_owned()))?,
            is_request: definition.kind == "request",
            versions,
            flexible_from: flexible.map(|flexible| flexible.min),
            structures: Vec::new(),
        };
        let mut resolver = Resolver { definition, message: &mut message };
        resolver.structure(&definition.name, &definition.fields, versions, 0).map_err(failed)?;
        message.compute_bytes_min();
        Ok(message)
    }

    pub(super) fn structure(&self, name: &str) -> Option<&Structure> {
        self.structures.iter().find(|structure| structure.name == name)
    }

    pub(super) fn is_flexible(&self, version: i16) -> bool {
        self.flexible_from.is_some_and(|from| version >= from)
    }

    fn compute_bytes_min(&mut self) {
        let computed: Vec<Vec<usize>> = self
            .structures
            .iter()
            .map(|structure| {
                let versions = self.versions.min..=self.versions.max;
                versions.map(|version| self.structure_bytes_min(structure, version)).collect()
            })
            .collect();
        for (structure, bytes_min) in self.structures.iter_mut().zip(computed) {
            structure.bytes_min = bytes_min;
        }
    }

    fn structure_bytes_min(&self, structure: &Structure, version: i16) -> usize {
        let present = structure.fields.iter().filter(|f| f.tag.is_none() && f.versions.contains(version));
        let fields: usize = present.map(|field| self.field_bytes_min(field, version)).sum();
        fields + usize::from(self.is_flexible(version))
    }

    fn field_bytes_min(&self, field: &Field, version: i16) -> usize {
        let compact = self.is_flexible(version);
        match &field.kind {
            Kind::Bool | Kind::Int("i8") => 1,
            Kind::Int("i16" | "u16") => 2,
            Kind::Int("i32" | "u32") => 4,
            Kind::Int(_) | Kind::Float => 8,
            Kind::Uuid => 16,
            Kind::String => {
                if compact {
                    1
                } else {
                    2
                }
            }
            Kind::Bytes | Kind::Records | Kind::Array(_) => {
                if compact {
                    1
                } else {
                    4
                }
            }
            Kind::Structure(_) if field.nullable.is_some() => 1,
            Kind::Structure(name) => {
                self.structure(name).map_or(0, |structure| self.structure_bytes_min(structure, version))
            }
        }
    }
}

/// The deepest nesting that can be generated. Kafka's deepest is 5. A recursive structure would exceed any
/// limit.
const DEPTH_MAX: usize = 8;

struct Resolver<'a> {
    definition: &'a Definition,
    message: &'a mut Message,
}

impl Resolver<'_> {
    /// Resolves a structure and all structures that it refers to. Widens the versions of a structure that is
    /// already known.
    fn structure(
        &mut self,
        name: &str,
        fields: &[FieldDefinition],
        versions: Versions,
        depth: usize,
    ) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("{name} nests deeper than {DEPTH_MAX} structures"));
        }
        let known = self.message.structures.iter().position(|structure| structure.name == name);
        let hull = known.map_or(versions, |index| self.message.structures[index].versions.hull(versions));
        let resolved = fields
            .iter()
            .filter_map(|field| self.field(name, field, hull).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        let structure =
            Structure { name: name.to_owned(), versions: hull, fields: resolved, bytes_min: Vec::new() };
        match known {
            Some(index) => self.message.structures[index] = structure,
            None => self.message.structures.push(structure),
        }
        for field in fields {
            self.referred(field, hull, depth)?;
        }
        Ok(())
    }

    /// Resolves the structure that a field refers to, if any.
    fn referred(&mut self, field: &FieldDefinition, within: Versions, depth: usize) -> Result<(), String> {
        let kind = Kind::parse(&field.kind);
        let (Some(name), Some(versions)) = (kind.structure(), Versions::parse(&field.versions, within)?)
        else {
            return Ok(());
        };
        if !field.fields.is_empty() {
            return self.structure(name, &field.fields, versions, depth + 1);
        }
        let definition = self.definition;
        let common = definition.common_structs.iter().find(|common| common.name == name);
        let common = common.ok_or_else(|| format!("{} has the unknown type {name}", field.name))?;
        self.structure(name, &common.fields, versions, depth + 1)
    }

    fn field(
        &self,
        structure: &str,
        field: &FieldDefinition,
        within: Versions,
    ) -> Result<Option<Field>, String> {
        let Some(versions) = Versions::parse(&field.versions, within)? else { return Ok(None) };
        let refused = |what: &str| Err(format!("{structure}.{}: cannot generate {what}", field.name));
        let kind = Kind::parse(&field.kind);
        let nullable = match &field.nullable_versions {
            Some(text) => Versions::parse(text, versions)?,
            None => None,
        };
        if field.flexible_versions.is_some() {
            return refused("a field with its own flexible versions");
        }
        if let Some(tagged) = &field.tagged_versions {
            if field.tag.is_none() || Versions::parse(tagged, versions)? != Some(versions) {
                return refused("a field that is tagged in only some of its versions");
            }
            if kind == Kind::Records || (nullable.is_some() && matches!(kind, Kind::Structure(_))) {
                return refused("a tagged field of this type");
            }
        }
        if let Kind::Array(element) = &kind
            && matches!(**element, Kind::Array(_) | Kind::Bool | Kind::Float | Kind::Bytes | Kind::Records)
        {
            return refused("an array of this element type");
        }
        Ok(Some(Field {
            name: field.name.clone(),
            default: default_text(field.default.as_ref()),
            ignorable: field.ignorable,
            tag: field.tag,
            kind,
            versions,
            nullable,
        }))
    }
}

fn default_text(default: Option<&Value>) -> String {
    match default {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Returns every API key with at least one version, in ascending order.
pub(super) fn apis(definitions: &[Definition]) -> Result<Vec<Api>, String> {
    let mut apis = Vec::new();
    for request in definitions.iter().filter(|definition| definition.kind == "request") {
        let (Some(key), Some(versions)) = (request.api_key, Versions::parse(&request.valid_versions, ALL)?)
        else {
            continue;
        };
        let response = definitions
            .iter()
            .find(|definition| definition.kind == "response" && definition.api_key == Some(key))
            .ok_or_else(|| format!("{} has no response", request.name))?;
        let flexible_from = |definition: &Definition| {
            Ok::<_, String>(Versions::parse(&definition.flexible_versions, versions)?.map(|v| v.min))
        };
        apis.push(Api {
            key,
            name: request.name.trim_end_matches("Request").to_owned(),
            versions,
            stable_max: versions.max - i16::from(request.latest_version_unstable),
            request_flexible_from: flexible_from(request)?,
            response_flexible_from: flexible_from(response)?,
        });
    }
    apis.sort_by_key(|api| api.key);
    Ok(apis)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::definition::Definition;
    use super::{ALL, Message, Versions};

    fn resolve(fields: serde_json::Value) -> Result<Message, String> {
        let definition = json!({
            "apiKey": 1, "type": "request", "name": "ARequest",
            "validVersions": "1-4", "flexibleVersions": "3+", "fields": fields,
        });
        let definition: Definition = serde_json::from_value(definition).map_err(|error| error.to_string())?;
        Message::resolve(&definition)
    }

    #[test]
    fn versions_are_parsed() {
        let within = Versions { min: 1, max: 4 };
        let parse = |text| Versions::parse(text, within).expect("legal");
        assert_eq!(parse("2+"), Some(Versions { min: 2, max: 4 }));
        assert_eq!(parse("0-2"), Some(Versions { min: 1, max: 2 }));
        assert_eq!(parse("3"), Some(Versions { min: 3, max: 3 }));
        assert_eq!(parse("5+"), None);
        assert_eq!(parse("none"), None);
        assert!(Versions::parse("x", ALL).is_err());
    }

    #[test]
    fn smallest_encodings_depend_on_the_version() {
        let message = resolve(json!([
            {"name": "Name", "type": "string", "versions": "0+"},
            {"name": "Items", "type": "[]Item", "versions": "2+", "fields": [
                {"name": "Id", "type": "int32", "versions": "2+"}
            ]},
        ]))
        .expect("legal");
        assert_eq!(message.structures[0].bytes_min, [2, 6, 3, 3]);
        assert_eq!(message.structures[1].name, "Item");
        assert_eq!(message.structures[1].versions, Versions { min: 2, max: 4 });
    }

    #[test]
    fn what_cannot_be_generated_is_refused() {
        let nested = json!([{"name": "A", "type": "[][]int32", "versions": "0+"}]);
        assert!(resolve(nested).is_err());
        let unknown = json!([{"name": "A", "type": "Nowhere", "versions": "0+"}]);
        assert!(resolve(unknown).is_err());
        let partly_tagged =
            json!([{"name": "A", "type": "int32", "versions": "0+", "taggedVersions": "4+", "tag": 0}]);
        assert!(resolve(partly_tagged).is_err());
    }
}
