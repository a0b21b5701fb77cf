//! Prints resolved messages as Rust: one line per field and direction. rustfmt lays it out.

mod field;
mod lists;
mod schema;
mod text;

use std::fmt::Write as _;

use super::layout::{Field, Kind, Message, Structure, Versions};
use super::naming;
use super::secrets::is_secret;
use text::{HEADER, condition, in_words, line};

use field::{default_value, has_plain_default, read, rust_type, write};

pub(super) use lists::{api_keys, module};
pub(super) use schema::test_schema;

/// Returns the file of one message.
pub(super) fn message(message: &Message) -> String {
    let mut out = String::from(HEADER);
    let flexible = message.flexible_from.map_or("never flexible".into(), |v| format!("flexible from {v}"));
    line!(
        out,
        "//! `{}`: API key {}, {}, {flexible}.\n",
        message.name,
        message.api_key,
        in_words(message.versions)
    );
    imports(&mut out, message);
    for structure in &message.structures {
        definition(&mut out, message, structure);
        implementation(&mut out, message, structure);
    }
    message_traits(&mut out, message);
    out
}

fn imports(out: &mut String, message: &Message) {
    let fields = || message.structures.iter().flat_map(|structure| &structure.fields);
    if message.structures.iter().any(has_secrets) {
        line!(out, "use std::fmt;\n");
    }
    if fields().any(|field| field.kind == Kind::Bytes) {
        line!(out, "use bytes::Bytes;\n");
    }
    let mut names = vec![
        "ApiKey",
        "DecodeError",
        "EncodeError",
        "Message",
        "Reader",
        if message.is_request { "Request" } else { "Response" },
        "Structure",
        "VersionRange",
        "Writer",
    ];
    if fields().any(|field| field.kind == Kind::Records) {
        names.push("Records");
    }
    if message.flexible_from.is_some() {
        names.push("TaggedFields");
    }
    let partly_null = |field: &Field| field.nullable.is_some_and(|nullable| nullable != field.versions);
    if fields().any(partly_null) {
        names.push("required");
    }
    line!(out, "use crate::{{{}}};\n", names.join(", "));
}

fn definition(out: &mut String, message: &Message, structure: &Structure) {
    if structure.name == message.name {
        let what = if message.is_request { "Request" } else { "Response" };
        line!(out, "/// {what} body, {}.", in_words(structure.versions));
    } else {
        line!(out, "/// Part of [`{}`], {}.", message.name, in_words(structure.versions));
    }
    let plain = structure.fields.iter().all(has_plain_default);
    let debug = if has_secrets(structure) { "" } else { "Debug, " };
    line!(out, "#[derive(Clone, {debug}{}PartialEq)]", if plain { "Default, " } else { "" });
    line!(out, "pub struct {} {{", structure.name);
    for field in &structure.fields {
        line!(out, "/// {}", field_words(field, structure));
        line!(out, "pub {}: {},", naming::field(&field.name), rust_type(field));
    }
    if message.flexible_from.is_some() {
        line!(out, "/// Unknown tagged fields that were received.");
        line!(out, "pub unknown_tagged_fields: TaggedFields,");
    }
    line!(out, "}}\n");
    if !plain {
        default_implementation(out, message, structure);
    }
    if has_secrets(structure) {
        debug_implementation(out, message, structure);
    }
}

fn has_secrets(structure: &Structure) -> bool {
    structure.fields.iter().any(|field| is_secret(&structure.name, &field.name))
}

/// Prints a `Debug` that shows no secret.
fn debug_implementation(out: &mut String, message: &Message, structure: &Structure) {
    let name = &structure.name;
    line!(out, "impl fmt::Debug for {name} {{");
    line!(out, "fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {{");
    line!(out, "f.debug_struct(\"{name}\")");
    for field in &structure.fields {
        let value = match is_secret(name, &field.name) {
            true => "format_args!(\"<hidden>\")".to_owned(),
            false => format!("self.{}", naming::field(&field.name)),
        };
        line!(out, ".field(\"{}\", &{value})", naming::snake(&field.name));
    }
    if message.flexible_from.is_some() {
        line!(out, ".field(\"unknown_tagged_fields\", &self.unknown_tagged_fields)");
    }
    line!(out, ".finish()\n}}\n}}\n");
}

fn default_implementation(out: &mut String, message: &Message, structure: &Structure) {
    line!(out, "impl Default for {} {{\nfn default() -> Self {{\nSelf {{", structure.name);
    for field in &structure.fields {
        line!(out, "{}: {},", naming::field(&field.name), default_value(field));
    }
    if message.flexible_from.is_some() {
        line!(out, "unknown_tagged_fields: TaggedFields::default(),");
    }
    line!(out, "}}\n}}\n}}\n");
}

fn implementation(out: &mut String, message: &Message, structure: &Structure) {
    line!(out, "impl Structure for {} {{", structure.name);
    bytes_min(out, message, structure);
    let mut body = String::new();
    read_fields(&mut body, message, structure);
    function(
        out,
        &body,
        "fn read_fields(&mut self, reader: &mut Reader, version: i16) -> Result<(), DecodeError>",
        "reader",
        message,
    );
    body.clear();
    write_fields(&mut body, message, structure);
    function(
        out,
        &body,
        "fn write_fields(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError>",
        "writer",
        message,
    );
    line!(out, "}}\n");
}

/// Prints a function around `body`. Unused arguments get an underscore, and `flexible` is computed if `body`
/// uses it.
fn function(out: &mut String, body: &str, signature: &str, first: &str, message: &Message) {
    let mut body = body.to_owned();
    if has_word(&body, "flexible") {
        let from = message.flexible_from.unwrap_or_default();
        body = format!("let flexible = version >= {from};\n{body}");
    }
    let mut signature = signature.to_owned();
    for argument in [first, "version"] {
        if !has_word(&body, argument) {
            signature = signature.replace(&format!("{argument}:"), &format!("_{argument}:"));
        }
    }
    line!(out, "{signature} {{\n{body}Ok(())\n}}\n");
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|found| found == word)
}

fn bytes_min(out: &mut String, message: &Message, structure: &Structure) {
    let mut runs: Vec<(Versions, usize)> = Vec::new();
    for (version, &bytes) in (message.versions.min..).zip(&structure.bytes_min) {
        if !structure.versions.contains(version) {
            continue;
        }
        match runs.last_mut() {
            Some((versions, same)) if *same == bytes => versions.max = version,
            _ => runs.push((Versions { min: version, max: version }, bytes)),
        }
    }
    let Some(((_, last), earlier)) = runs.split_last() else { return };
    if earlier.is_empty() {
        line!(out, "fn bytes_min(_version: i16) -> usize {{ {last} }}\n");
        return;
    }
    line!(out, "fn bytes_min(version: i16) -> usize {{\nmatch version {{");
    for (Versions { min, max }, bytes) in earlier {
        let pattern = if min == max { min.to_string() } else { format!("{min}..={max}") };
        line!(out, "{pattern} => {bytes},");
    }
    line!(out, "_ => {last},\n}}\n}}\n");
}

fn read_fields(out: &mut String, message: &Message, structure: &Structure) {
    for field in structure.fields.iter().filter(|field| field.tag.is_none()) {
        let reading = read(field, message, structure);
        match condition(field.versions, structure.versions) {
            Some(condition) => {
                line!(out, "if {condition} {{ {reading} }}");
            }
            None => {
                line!(out, "{reading}");
            }
        }
    }
    let Some(flexible) = flexible_condition(message, structure) else { return };
    let tagged: Vec<_> = structure.fields.iter().filter(|field| field.tag.is_some()).collect();
    let name = &structure.name;
    line!(out, "{flexible}");
    if tagged.is_empty() {
        line!(out, "self.unknown_tagged_fields = reader.unknown_tags(\"{name}\")?;\n}}");
        return;
    }
    line!(out, "for _ in 0..reader.tag_count(\"{name}\")? {{");
    line!(out, "let tag = reader.tag(\"{name}\")?;\nmatch tag.number {{");
    for field in tagged {
        let flexible_from = message.flexible_from.unwrap_or_default();
        let within = Versions { min: structure.versions.min.max(flexible_from), ..structure.versions };
        let guard = condition(field.versions, within).map_or(String::new(), |c| format!(" if {c}"));
        line!(out, "{}{guard} => {{ {}", field.tag.unwrap_or_default(), read(field, message, structure));
        line!(out, "reader.tag_end(tag, \"{name}.{}\")?; }}", naming::snake(&field.name));
    }
    line!(out, "_ => reader.unknown_tag(tag, &mut self.unknown_tagged_fields, \"{name}\")?,");
    line!(out, "}}\n}}\n}}");
}

fn write_fields(out: &mut String, message: &Message, structure: &Structure) {
    for field in structure.fields.iter().filter(|field| field.tag.is_none()) {
        let writing = write(field, message, structure);
        let Some(condition) = condition(field.versions, structure.versions) else {
            line!(out, "{writing}");
            continue;
        };
        let refusal =
            field::refusal(field, structure).map_or(String::new(), |refusal| format!(" else {refusal}"));
        line!(out, "if {condition} {{ {writing} }}{refusal}");
    }
    let tagged: Vec<_> = structure.fields.iter().filter(|field| field.tag.is_some()).collect();
    for field in &tagged {
        let absent = absence(field.versions, structure.versions);
        let (Some(absent), Some(refusal)) = (absent, field::refusal(field, structure)) else { continue };
        line!(out, "{}", refusal.replacen("if ", &format!("if {absent} && "), 1));
    }
    let Some(flexible) = flexible_condition(message, structure) else { return };
    let name = &structure.name;
    line!(out, "{flexible}");
    let mut count = String::from("self.unknown_tagged_fields.len()");
    for field in &tagged {
        let snake = naming::snake(&field.name);
        let present = condition(field.versions, structure.versions)
            .map_or(String::new(), |condition| format!("{condition} && "));
        line!(out, "let has_{snake} = {present}{};", field::differs_from_default(field));
        count = format!("usize::from(has_{snake}) + {count}");
    }
    line!(out, "writer.tag_count({count}, \"{name}\")?;");
    let mut ascending = tagged;
    ascending.sort_by_key(|field| field.tag);
    for field in ascending {
        let snake = naming::snake(&field.name);
        line!(out, "if has_{snake} {{\nlet tag = writer.begin_tag({});", field.tag.unwrap_or_default());
        line!(out, "{}", write(field, message, structure));
        line!(out, "writer.end_tag(tag, \"{name}.{snake}\")?;\n}}");
    }
    line!(out, "writer.unknown_tags(&self.unknown_tagged_fields, \"{name}\")?;\n}}");
}

/// The head of a block for flexible versions. It is unconditional if all versions are flexible, and `None` if
/// none is.
fn flexible_condition(message: &Message, structure: &Structure) -> Option<&'static str> {
    let from = message.flexible_from.filter(|from| *from <= structure.versions.max)?;
    Some(if from <= structure.versions.min { "{" } else { "if flexible {" })
}

/// The negation of [`condition`].
fn absence(versions: Versions, within: Versions) -> Option<String> {
    let before = (versions.min > within.min).then(|| format!("version < {}", versions.min));
    let after = (versions.max < within.max).then(|| format!("version > {}", versions.max));
    match (before, after) {
        (Some(before), Some(after)) => Some(format!("({before} || {after})")),
        (before, after) => before.or(after),
    }
}

fn message_traits(out: &mut String, message: &Message) {
    let name = &message.name;
    let Versions { min, max } = message.versions;
    line!(out, "impl Message for {name} {{");
    line!(out, "const NAME: &'static str = \"{name}\";");
    line!(out, "const VERSIONS: VersionRange = VersionRange {{ min: {min}, max: {max} }};");
    line!(out, "const FLEXIBLE_FROM: Option<i16> = {:?};\n}}\n", message.flexible_from);
    let api = name.trim_end_matches("Request").trim_end_matches("Response");
    if message.is_request {
        line!(out, "impl Request for {name} {{\nconst KEY: ApiKey = ApiKey::{api};");
        line!(out, "type Response = super::{api}Response;\n}}");
    } else {
        line!(out, "impl Response for {name} {{\nconst KEY: ApiKey = ApiKey::{api};");
        if has_throttle_time(message) {
            line!(out, "\nfn throttle_time_ms(&mut self) -> Option<&mut i32> {{");
            line!(out, "Some(&mut self.throttle_time_ms)\n}}");
        }
        line!(out, "}}");
    }
}

/// Reports whether a response has the field for quotas at its top level.
fn has_throttle_time(message: &Message) -> bool {
    message
        .structures
        .first()
        .is_some_and(|body| body.fields.iter().any(|field| field.name == "ThrottleTimeMs"))
}

/// The doc comment of a field.
fn field_words(field: &Field, structure: &Structure) -> String {
    let mut words = format!("Field `{}`", field.name);
    if field.versions != structure.versions {
        words.push_str(&format!(", {}", in_words(field.versions)));
    }
    if let Some(tag) = field.tag {
        words.push_str(&format!(", tag {tag}"));
    }
    match field.nullable {
        Some(nullable) if nullable == field.versions => words.push_str(", nullable"),
        Some(nullable) => words.push_str(&format!(", nullable in {}", in_words(nullable))),
        None => {}
    }
    if !field.default.is_empty() && field.default != "null" {
        words.push_str(&format!(", by default {}", field.default));
    }
    words.push('.');
    words
}
