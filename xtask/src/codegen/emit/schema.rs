//! Prints a description of all messages, from which the tests of `tailrace-kafka-wire` make random messages.
//! It comes straight from the definitions, so that the tests do not check the generated code against itself.

use super::super::layout::{Field, Kind, Message, Versions};
use std::fmt::Write as _;

use super::text::{HEADER, line};

/// Returns the file with the description.
pub(in super::super) fn test_schema(messages: &[Message]) -> String {
    let mut out = String::from(HEADER);
    line!(
        out,
        "//! A description of every generated message.\n\nuse super::schema::{{Field, Kind, Message, Structure}};\n"
    );
    line!(out, "pub(crate) static MESSAGES: &[&Message] = &[");
    for message in messages {
        line!(out, "    &{},", constant(&message.name));
    }
    line!(out, "];\n");
    for message in messages {
        let Versions { min, max } = message.versions;
        line!(
            out,
            "static {}: Message = Message {{\n    key: {}, request: {}, versions: ({min}, {max}), flexible_from: {:?}, structures: &[",
            constant(&message.name),
            message.api_key,
            message.is_request,
            message.flexible_from,
        );
        for structure in &message.structures {
            line!(out, "        Structure {{ name: {:?}, fields: &[", structure.name);
            for field in &structure.fields {
                print_field(&mut out, field);
            }
            line!(out, "        ] }},");
        }
        line!(out, "    ],\n}};\n");
    }
    out
}

fn print_field(out: &mut String, field: &Field) {
    let Versions { min, max } = field.versions;
    line!(
        out,
        "            Field {{ kind: {}, versions: ({min}, {max}), nullable: {:?}, tag: {:?}, default_true: {} }},",
        kind(&field.kind),
        field.nullable.map(|Versions { min, max }| (min, max)),
        field.tag,
        field.default.eq_ignore_ascii_case("true"),
    );
}

fn kind(kind_: &Kind) -> String {
    match kind_ {
        Kind::Bool => "Kind::Bool".into(),
        Kind::Int(name) => {
            let bits: u32 = name[1..].parse().unwrap_or_default();
            format!("Kind::Number({})", bits / 8)
        }
        Kind::Float => "Kind::Number(8)".into(),
        Kind::Uuid => "Kind::Uuid".into(),
        Kind::String => "Kind::String".into(),
        Kind::Bytes => "Kind::Bytes".into(),
        Kind::Records => "Kind::Records".into(),
        Kind::Structure(name) => format!("Kind::Structure({name:?})"),
        Kind::Array(element) => format!("Kind::Array(&{})", kind(element)),
    }
}

fn constant(name: &str) -> String {
    super::naming::snake(name).to_uppercase()
}
