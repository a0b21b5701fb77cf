//! The Rust of a single field: its type, its default, and how it is read and written.

use super::super::layout::{Field, Kind, Message, Structure, Versions};
use super::super::naming;
use super::text::condition;

/// The Rust type of a field.
pub(super) fn rust_type(field: &Field) -> String {
    let plain = plain_type(&field.kind);
    if is_option(field) { format!("Option<{plain}>") } else { plain }
}

fn plain_type(kind: &Kind) -> String {
    match kind {
        Kind::Bool => "bool".into(),
        Kind::Int(name) => (*name).into(),
        Kind::Float => "f64".into(),
        Kind::Uuid => "[u8; 16]".into(),
        Kind::String => "String".into(),
        Kind::Bytes => "Bytes".into(),
        Kind::Records => "Records".into(),
        Kind::Structure(name) => name.clone(),
        Kind::Array(element) => format!("Vec<{}>", plain_type(element)),
    }
}

/// Reports whether the field's type is an `Option`. Nullable records are not, because `Records` has a null
/// variant.
pub(super) fn is_option(field: &Field) -> bool {
    field.nullable.is_some() && field.kind != Kind::Records
}

/// The default value of a field, as Rust code.
pub(super) fn default_value(field: &Field) -> String {
    let default = field.default.as_str();
    let value = match &field.kind {
        _ if default == "null" => {
            return if is_option(field) { "None".into() } else { "Records::Null".into() };
        }
        Kind::Bool => (default.eq_ignore_ascii_case("true")).to_string(),
        Kind::Int(kind) => integer(default, kind),
        Kind::Float => {
            if default.is_empty() {
                "0.0".into()
            } else {
                format!("{default}_f64")
            }
        }
        Kind::Uuid => "[0; 16]".into(),
        Kind::String if default.is_empty() => "String::new()".into(),
        Kind::String => format!("{default:?}.to_owned()"),
        Kind::Bytes => "Bytes::new()".into(),
        Kind::Records => "Records::Null".into(),
        Kind::Structure(name) => format!("{name}::default()"),
        Kind::Array(_) => "Vec::new()".into(),
    };
    if is_option(field) { format!("Some({value})") } else { value }
}

fn integer(text: &str, kind: &str) -> String {
    let value = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).unwrap_or_default(),
        None => text.parse::<i64>().unwrap_or_default(),
    };
    match (kind, value) {
        (_, i64::MAX) => "i64::MAX".into(),
        ("i32", 0x7fff_ffff) => "i32::MAX".into(),
        ("i32", -0x8000_0000) => "i32::MIN".into(),
        _ => value.to_string(),
    }
}

/// Reports whether `derive(Default)` yields the field's default.
pub(super) fn has_plain_default(field: &Field) -> bool {
    match default_value(field).as_str() {
        "None" | "false" | "0" | "0.0" | "[0; 16]" | "String::new()" | "Bytes::new()" | "Records::Null"
        | "Vec::new()" => true,
        other => other.ends_with("::default()") && !is_option(field),
    }
}

/// The condition that the field differs from its default.
pub(super) fn differs_from_default(field: &Field) -> String {
    let place = format!("self.{}", naming::field(&field.name));
    match default_value(field).as_str() {
        "None" => format!("{place}.is_some()"),
        "Records::Null" => format!("{place} != Records::Null"),
        "false" => place,
        "true" => format!("!{place}"),
        "String::new()" | "Bytes::new()" | "Vec::new()" => format!("!{place}.is_empty()"),
        "Some(Vec::new())" | "Some(String::new())" | "Some(Bytes::new())" => {
            format!("{place}.as_ref().is_none_or(|value| !value.is_empty())")
        }
        default => format!("{place} != {default}"),
    }
}

/// The `if` statement that rejects a value that this version cannot carry. `None` if the value may be
/// dropped.
pub(super) fn refusal(field: &Field, structure: &Structure) -> Option<String> {
    if field.ignorable {
        return None;
    }
    Some(format!(
        "if {} {{ return Err(EncodeError::FieldNotInVersion {{ field: {}, version }}); }}",
        differs_from_default(field),
        label(field, structure)
    ))
}

/// The statement that reads the field in versions that have it.
pub(super) fn read(field: &Field, message: &Message, structure: &Structure) -> String {
    let place = format!("self.{}", naming::field(&field.name));
    if let (Kind::Structure(_), None) = (&field.kind, field.nullable) {
        return format!("{place}.read_fields(reader, version)?;");
    }
    let label = label(field, structure);
    let flexible = flexible(field, message);
    let (method, arguments) = match &field.kind {
        Kind::Bool => ("bool", label),
        Kind::Int(kind) => (*kind, label),
        Kind::Float => ("f64", label),
        Kind::Uuid => ("uuid", label),
        Kind::String => ("string", format!("{flexible}, {label}")),
        Kind::Bytes => ("bytes", format!("{flexible}, {label}")),
        Kind::Records => ("records", format!("{flexible}, {label}")),
        Kind::Structure(_) => ("structure", format!("version, {label}")),
        Kind::Array(_) => ("array", format!("version, {flexible}, {label}")),
    };
    let plain = format!("reader.{method}({arguments})?");
    let nullable = format!("reader.nullable_{method}({arguments})?");
    let value = match sometimes_null(field) {
        Nullability::Never => plain,
        Nullability::Always => nullable,
        Nullability::If(condition) if is_option(field) => {
            format!("if {condition} {{ {nullable} }} else {{ Some({plain}) }}")
        }
        Nullability::If(condition) => format!("if {condition} {{ {nullable} }} else {{ {plain} }}"),
    };
    format!("{place} = {value};")
}

/// The statement that writes the field in versions that have it.
pub(super) fn write(field: &Field, message: &Message, structure: &Structure) -> String {
    let place = format!("self.{}", naming::field(&field.name));
    let label = label(field, structure);
    let flexible = flexible(field, message);
    let (method, tail) = match &field.kind {
        Kind::Bool => return format!("writer.bool({place});"),
        Kind::Int(kind) => return format!("writer.{kind}({place});"),
        Kind::Float => return format!("writer.f64({place});"),
        Kind::Uuid => return format!("writer.uuid({place});"),
        Kind::Structure(_) if field.nullable.is_none() => {
            return format!("{place}.write_fields(writer, version)?;");
        }
        // A response never carries null records, because librdkafka rejects them.
        Kind::Records if field.nullable.is_some() && message.is_request => {
            return format!("writer.nullable_records(&{place}, {flexible}, {label})?;");
        }
        Kind::Records => return format!("writer.records(&{place}, {flexible}, {label})?;"),
        Kind::Structure(_) => ("structure", "version".to_owned()),
        Kind::String => ("string", format!("{flexible}, {label}")),
        Kind::Bytes => ("bytes", format!("{flexible}, {label}")),
        Kind::Array(_) => ("array", format!("version, {flexible}, {label}")),
    };
    let optional = match field.kind {
        Kind::Bytes | Kind::Structure(_) => format!("{place}.as_ref()"),
        _ => format!("{place}.as_deref()"),
    };
    let nullable = format!("writer.nullable_{method}({optional}, {tail})?;");
    match sometimes_null(field) {
        Nullability::Never => format!("writer.{method}(&{place}, {tail})?;"),
        Nullability::Always => nullable,
        Nullability::If(condition) => format!(
            "if {condition} {{ {nullable} }} else {{ writer.{method}(required({optional}, {label})?, {tail})?; }}"
        ),
    }
}

enum Nullability {
    Never,
    Always,
    If(String),
}

fn sometimes_null(field: &Field) -> Nullability {
    match field.nullable {
        None => Nullability::Never,
        Some(nullable) => match condition(nullable, field.versions) {
            None => Nullability::Always,
            Some(condition) => Nullability::If(condition),
        },
    }
}

/// Whether the field's lengths are compact: a constant if all or none of its versions are flexible.
fn flexible(field: &Field, message: &Message) -> &'static str {
    let Versions { min, max } = field.versions;
    match (message.is_flexible(min), message.is_flexible(max)) {
        (true, _) => "true",
        (false, false) => "false",
        (false, true) => "flexible",
    }
}

/// The name of the field in errors.
fn label(field: &Field, structure: &Structure) -> String {
    format!("\"{}.{}\"", structure.name, naming::snake(&field.name))
}
