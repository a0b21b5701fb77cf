//! Shows answers as text. It starts from the output of `Debug`, so that every field of every message appears
//! without code for each.

use tailrace_kafka_wire::ErrorCode;
use tailrace_records::{DecodedBatch, EndTransactionMarker, split_batches};

/// Maximum width of a line. Longer values are broken over several lines.
const COLUMNS: usize = 110;

/// Values that stand for "not given".
const UNSET: [(&str, &str); 5] = [
    ("preferred_read_replica", "-1"),
    ("log_append_time_ms", "-1"),
    ("authorized_operations", "-2147483648"),
    ("topic_authorized_operations", "-2147483648"),
    ("cluster_authorized_operations", "-2147483648"),
];

/// Lists that brokers keep in hash order.
const IN_ANY_ORDER: [&str; 2] = ["partition_responses", "members"];

/// A longer list of a topic's settings is shown as `many`, because the set of settings is not compared.
const SETTINGS_MAX: usize = 8;

/// Values that differ from run to run, numbered by first appearance.
#[derive(Debug, Default)]
pub struct Names {
    ids: Vec<Vec<u8>>,
    members: Vec<String>,
    producers: Vec<i64>,
    /// Epochs of group members. Kafka's start at 2.
    epochs: Vec<i32>,
}

impl Names {
    /// Returns the topic id that a script calls `id1`. For any other name, an id that no topic has.
    pub fn id(&self, name: &str) -> [u8; 16] {
        let number = name.strip_prefix("id").and_then(|number| number.parse::<usize>().ok());
        match number.and_then(|number| self.ids.get(number - 1)) {
            Some(id) => id.as_slice().try_into().expect("16 bytes"),
            None => [0xee; 16],
        }
    }

    /// Returns the member id that a script calls `m1`. Any other name is used as it is.
    pub fn member(&self, name: &str) -> String {
        let number = name.strip_prefix('m').and_then(|number| number.parse::<usize>().ok());
        number.and_then(|number| self.members.get(number - 1)).map_or_else(|| name.to_owned(), Clone::clone)
    }

    /// Returns the member epoch that a script calls `e1`, or a number.
    pub fn epoch(&self, name: &str) -> i32 {
        match name.strip_prefix('e').and_then(|number| number.parse::<usize>().ok()) {
            Some(number) => self.epochs[number - 1],
            None => name.parse().expect("an epoch"),
        }
    }

    /// Returns the producer id that a script calls `p1`, or a number.
    pub fn producer(&self, name: &str) -> i64 {
        match name.strip_prefix('p').and_then(|number| number.parse::<usize>().ok()) {
            Some(number) => self.producers[number - 1],
            None => name.parse().expect("a producer id"),
        }
    }
}

fn nth<T: PartialEq + Clone>(known: &mut Vec<T>, what: &T) -> usize {
    known.iter().position(|one| one == what).unwrap_or_else(|| {
        known.push(what.clone());
        known.len() - 1
    }) + 1
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    /// A number, a name, a text with its quotation marks.
    Plain(String),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Fields(Vec<(String, Value)>),
}

/// Shows the fields of a message, on one or more lines each.
pub fn show(debug: &str, names: &mut Names) -> Vec<String> {
    let mut parser = Parser { rest: debug };
    let value = named(None, parser.value(), names);
    assert!(parser.rest.is_empty(), "cannot parse {:?} in {debug}", parser.rest);
    let mut lines = Vec::new();
    match value {
        Some(Value::Fields(fields)) => {
            for (name, value) in fields {
                print(&format!("{name}: "), &value, 0, &mut lines);
            }
        }
        Some(other) => print("", &other, 0, &mut lines),
        None => lines.push("nothing".to_owned()),
    }
    lines
}

/// Returns the key by which a partition or a member is sorted.
fn place(item: &Value, names: &Names) -> usize {
    let Value::Fields(fields) = item else { return 0 };
    let number = fields.iter().find_map(|(name, value)| match (name.as_str(), value) {
        ("index" | "partition_index", Value::Plain(number)) => number.parse().ok(),
        ("member_id", Value::Plain(id)) => {
            names.members.iter().position(|known| known == id.trim_matches('"'))
        }
        _ => None,
    });
    number.unwrap_or(usize::MAX)
}

/// Returns the value with names in place of what differs from run to run, and without default values.
fn named(field: Option<&str>, value: Value, names: &mut Names) -> Option<Value> {
    let plain = |text: String| Some(Value::Plain(text));
    match (field.unwrap_or_default(), value) {
        // Messages are worded differently in each server, and the interval is a setting.
        ("error_message" | "batch_index_error_message" | "heartbeat_interval_ms", _) => None,
        ("throttle_time_ms" | "unknown_tagged_fields", _) => None,
        (name, Value::Plain(text)) if UNSET.contains(&(name, text.as_str())) => None,
        // The first producer id may be 0, so it is not left out.
        ("producer_id", Value::Plain(id)) if id != "-1" => {
            plain(format!("p{}", nth(&mut names.producers, &id.parse().expect("a number"))))
        }
        (_, Value::Plain(text)) if ["0", "false", "None", "\"\"", "Null"].contains(&text.as_str()) => None,
        ("error_code" | "partition_error_code", Value::Plain(code)) => {
            let code = code.parse::<i16>().expect("a code");
            let known = ErrorCode::ALL.iter().find(|known| known.code() == code);
            plain(known.map_or(format!("error {code}"), |known| known.name().to_owned()))
        }
        ("host", _) => plain("HOST".to_owned()),
        ("port", _) => plain("PORT".to_owned()),
        ("cluster_id", _) => plain("CLUSTER".to_owned()),
        ("member_id" | "leader", Value::Plain(id)) if id.starts_with('"') => {
            plain(format!("m{}", nth(&mut names.members, &id.trim_matches('"').to_owned())))
        }
        ("member_epoch", Value::Plain(epoch)) if epoch != "-1" => {
            plain(format!("e{}", nth(&mut names.epochs, &epoch.parse().expect("a number"))))
        }
        (_, Value::Plain(text)) if text.parse().is_ok_and(|number: i64| number > 1_600_000_000_000) => {
            plain("NOW".to_owned())
        }
        ("records", Value::Bytes(bytes)) => records(&bytes),
        (_, Value::Bytes(bytes)) if bytes.is_empty() => None,
        (_, Value::Bytes(bytes)) => plain(format!("{:?}", String::from_utf8_lossy(&bytes))),
        ("topic_id", Value::List(id)) => {
            let bytes = id.iter().map(|byte| match byte {
                Value::Plain(byte) => byte.parse().expect("a byte"),
                other => panic!("{other:?} in a topic id"),
            });
            let bytes: Vec<u8> = bytes.collect();
            let known = bytes.iter().any(|&byte| byte != 0);
            known.then(|| Value::Plain(format!("id{}", nth(&mut names.ids, &bytes))))
        }
        (_, Value::List(mut items)) => {
            if IN_ANY_ORDER.contains(&field.unwrap_or_default()) {
                items.sort_by_key(|item| place(item, names));
            }
            let shown = items.into_iter().map(|item| {
                let is_number = matches!(&item, Value::Plain(text) if text == "0");
                // A 0 in a list is one of its elements.
                if is_number { item } else { named(None, item, names).unwrap_or(Value::Fields(Vec::new())) }
            });
            let shown: Vec<_> = shown.collect();
            if field == Some("configs") && shown.len() > SETTINGS_MAX {
                return plain("many".to_owned());
            }
            (!shown.is_empty()).then_some(Value::List(shown))
        }
        (_, Value::Fields(fields)) => {
            let shown = fields.into_iter().filter_map(|(name, value)| {
                let value = named(Some(&name), value, names)?;
                Some((if name == "error_code" { "error".to_owned() } else { name }, value))
            });
            let shown: Vec<_> = shown.collect();
            // If all fields are -1, such as an epoch and an offset, there is no value.
            let is_told = shown.iter().any(|(_, value)| *value != Value::Plain("-1".to_owned()));
            is_told.then_some(Value::Fields(shown))
        }
        (_, other) => Some(other),
    }
}

/// Shows each batch: its base offset, the texts of its records, and its producer.
fn records(bytes: &[u8]) -> Option<Value> {
    let batches = split_batches(bytes).map(|item| {
        let Ok((header, batch)) = item else { return Value::Plain("a part of a batch".to_owned()) };
        let what = if header.attributes.is_control() {
            let marker = EndTransactionMarker::read(batch).expect("a sound marker").expect("a marker");
            if marker.committed { "commit".to_owned() } else { "abort".to_owned() }
        } else {
            let batch = DecodedBatch::new(batch, 1 << 20).expect("a sound batch");
            let values =
                batch.records().map(|record| record.expect("a sound record").value.unwrap_or_default());
            values.map(|value| format!("{:?}", String::from_utf8_lossy(value))).collect::<Vec<_>>().join(" ")
        };
        Value::Plain(format!("{} {what} (epoch {})", header.base_offset, header.leader_epoch))
    });
    let batches: Vec<_> = batches.collect();
    (!batches.is_empty()).then_some(Value::List(batches))
}

fn inline(value: &Value) -> String {
    let joined = |items: Vec<String>| items.join(", ");
    match value {
        Value::Plain(text) => text.clone(),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Value::List(items) => format!("[{}]", joined(items.iter().map(inline).collect())),
        Value::Fields(fields) => {
            format!(
                "{{{}}}",
                joined(fields.iter().map(|(name, value)| format!("{name}: {}", inline(value))).collect())
            )
        }
    }
}

/// `label` precedes the first line only.
fn print(label: &str, value: &Value, indent: usize, lines: &mut Vec<String>) {
    let margin = " ".repeat(indent);
    let line = format!("{margin}{label}{}", inline(value));
    match value {
        _ if line.len() <= COLUMNS => lines.push(line),
        Value::List(items) => {
            lines.push(format!("{margin}{}", label.trim_end()));
            items.iter().for_each(|item| print("- ", item, indent + 2, lines));
        }
        Value::Fields(fields) if label == "- " => {
            for (number, (name, value)) in fields.iter().enumerate() {
                let (label, indent) = match number {
                    0 => (format!("- {name}: "), indent),
                    _ => (format!("{name}: "), indent + 2),
                };
                print(&label, value, indent, lines);
            }
        }
        Value::Fields(fields) => {
            lines.push(format!("{margin}{}", label.trim_end()));
            fields.iter().for_each(|(name, value)| print(&format!("{name}: "), value, indent + 2, lines));
        }
        _ => lines.push(line),
    }
}

/// Parses the output of `#[derive(Debug)]`.
struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn value(&mut self) -> Value {
        if self.rest.starts_with("b\"") {
            self.skip(1);
            return Value::Bytes(self.text());
        }
        if self.rest.starts_with('"') {
            let text = self.text();
            return Value::Plain(format!("{:?}", String::from_utf8_lossy(&text)));
        }
        if self.take("[") {
            return Value::List(self.items("]"));
        }
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && !['_', '-', '.'].contains(&c));
        let word = self.rest[..end.unwrap_or(self.rest.len())].to_owned();
        self.skip(word.len());
        if self.take(" { ") {
            return Value::Fields(self.fields());
        }
        if self.take("(") {
            // `Some(x)` and `Bytes(x)` are shown as `x`.
            let mut items = self.items(")");
            assert_eq!(items.len(), 1, "{word}");
            return items.remove(0);
        }
        Value::Plain(word)
    }

    fn items(&mut self, end: &str) -> Vec<Value> {
        let mut items = Vec::new();
        while !self.take(end) {
            items.push(self.value());
            self.take(", ");
        }
        items
    }

    fn fields(&mut self) -> Vec<(String, Value)> {
        let mut fields = Vec::new();
        while !self.take(" }") {
            let colon = self.rest.find(": ").expect("a field");
            let name = self.rest[..colon].to_owned();
            self.skip(colon + 2);
            fields.push((name, self.value()));
            self.take(", ");
        }
        fields
    }

    /// Reads a quoted literal and returns the bytes that it stands for.
    fn text(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut chars = self.rest[1..].char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.skip(at + 2);
                    return bytes;
                }
                '\\' => match chars.next().expect("an escape").1 {
                    'n' => bytes.push(b'\n'),
                    'r' => bytes.push(b'\r'),
                    't' => bytes.push(b'\t'),
                    '0' => bytes.push(0),
                    'x' => {
                        let digits: String = chars.by_ref().take(2).map(|(_, c)| c).collect();
                        bytes.push(u8::from_str_radix(&digits, 16).expect("two digits"));
                    }
                    other => bytes.extend(other.to_string().as_bytes()),
                },
                other => bytes.extend(other.to_string().as_bytes()),
            }
        }
        panic!("a quoted literal without an end")
    }

    fn take(&mut self, what: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(what) else { return false };
        self.rest = rest;
        true
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }
}
