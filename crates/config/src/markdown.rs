//! Generates docs/configuration.md from the tables.

use std::fmt::Write;

use super::key::{Applies, Bounds, ConfigKey};
use super::keys::{broker_keys, group_keys, topic_keys};

const INTRODUCTION: &str = "\
# Configuration

This page is generated from the tables in `crates/config/src`; do not edit it.

Settings of the broker come from four places, the later ones winning: built-in defaults, the TOML
file named by `--config`, environment variables, and the command line (`--set KEY=VALUE`, or a flag
of its own where there is one). Some can be changed while the process runs, with any Kafka admin
client, on the broker resource; such changes are stored in the metadata log and win over the start
configuration. An unknown key or an illegal value is an error, never ignored.

A topic that does not set one of its settings takes the broker-wide value. The broker-wide value can
be set under the topic setting's own name, or under the name that Kafka uses for the broker. These
are two names of one setting, and giving them different values is an error.

Numbers are integers, except where a fraction is asked for, and are written without separators.
";

const TOPICS: &str = "
## Topics

All of these can be set when a topic is created and changed afterwards, without a restart.
";

const BROKER: &str = "
## Broker
";

const GROUPS: &str = "
## Groups

All of these can be set for a group with any Kafka admin client (resource type GROUP), before or
after the group is created. A group that does not set one takes the broker-wide value. A value must
be within the bounds that the broker sets.
";

const ACCEPTED: &str = "
## Accepted without effect

Kafka's clients and tools may set these. tailrace checks, stores and shows them, but they have no
other effect yet.
";

/// Columns of a line of prose.
const COLUMNS: usize = 100;

/// Returns the text of docs/configuration.md.
pub fn configuration_markdown() -> String {
    let mut text = String::from(INTRODUCTION);
    let shown = |key: &&ConfigKey| !key.internal && key.applies == Applies::Implemented;
    text.push_str(BROKER);
    for key in broker_keys().iter().filter(shown).filter(|key| key.default_of.is_none()) {
        section(&mut text, key, &broker_facts(key));
    }
    text.push_str(TOPICS);
    for key in topic_keys().iter().filter(shown) {
        section(&mut text, key, &topic_facts(key));
    }
    text.push_str(GROUPS);
    for key in group_keys().iter().filter(shown) {
        section(&mut text, key, &topic_facts(key));
    }
    text.push_str(ACCEPTED);
    accepted(&mut text, "Topic", topic_keys());
    accepted(&mut text, "Group", group_keys());
    let own: Vec<_> = broker_keys().iter().filter(|key| key.default_of.is_none()).copied().collect();
    accepted(&mut text, "Broker", &own);
    text
}

fn accepted(text: &mut String, scope: &str, keys: &[ConfigKey]) {
    let _ = write!(text, "\n| {scope} setting | Default | Meaning in Kafka |\n|---|---|---|\n");
    for key in keys.iter().filter(|key| key.applies == Applies::Accepted) {
        let default = value(key.default.unwrap_or_default());
        let _ = writeln!(text, "| `{}` | {default} | {} |", key.name, key.documentation.trim());
    }
}

/// Breaks the lines of a text at [`COLUMNS`] columns. A longer word stays whole.
fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    for line in text.lines() {
        let mut columns = 0;
        for word in line.split_whitespace() {
            let length = word.chars().count();
            if columns > 0 {
                let fits = columns + 1 + length <= COLUMNS;
                wrapped.push(if fits { ' ' } else { '\n' });
                columns = if fits { columns + 1 } else { 0 };
            }
            wrapped.push_str(word);
            columns += length;
        }
        wrapped.push('\n');
    }
    wrapped.truncate(wrapped.trim_end().len());
    wrapped
}

fn section(text: &mut String, key: &ConfigKey, facts: &[String]) {
    let _ = write!(text, "\n### `{}`\n{}\n\n", key.name, wrapped(key.documentation.trim()));
    for fact in facts {
        let _ = writeln!(text, "- {fact}");
    }
}

fn common_facts(key: &ConfigKey) -> Vec<String> {
    let unit = key.unit.name();
    let kind = key.kind.name();
    let mut facts =
        vec![if unit.is_empty() { format!("Type: {kind}") } else { format!("Type: {kind}, in {unit}") }];
    facts.push(format!("Default: {}", key.default.map_or_else(|| "none".to_owned(), value)));
    if let Some(legal) = legal(key) {
        facts.push(format!("Legal: {legal}"));
    }
    if !key.not_yet.is_empty() {
        let refused = key.not_yet.iter().map(|text| value(text)).collect::<Vec<_>>().join(", ");
        facts.push(format!("Not supported yet: {refused}"));
    }
    facts
}

fn broker_facts(key: &ConfigKey) -> Vec<String> {
    let mut facts = common_facts(key);
    if !key.aliases.is_empty() {
        facts.push(format!("Also: {}", names(key.aliases.iter().copied())));
    }
    facts.push(format!("Environment: `{}`", key.environment_name()));
    if key.dynamic {
        facts.push("Can be changed at run time".to_owned());
    }
    facts
}

fn topic_facts(key: &ConfigKey) -> Vec<String> {
    let mut facts = common_facts(key);
    if !key.synonyms.is_empty() {
        let broker_wide = key.synonyms.iter().map(|synonym| synonym.name);
        facts.push(format!("Broker-wide: {}", names(broker_wide)));
    }
    facts
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn value(text: &str) -> String {
    if text.is_empty() { "empty".to_owned() } else { format!("`{text}`") }
}

fn legal(key: &ConfigKey) -> Option<String> {
    match key.bounds {
        Bounds::Any => None,
        Bounds::AtLeast(min) => Some(format!("from {min}")),
        Bounds::Between(min, max) => Some(format!("{min} to {max}")),
        Bounds::MinusOneOr(min, max) => Some(format!("-1, or {min} to {max}")),
        Bounds::Share(min, max) => Some(format!("{min} to {max}")),
        Bounds::OneOf(allowed) => {
            Some(names(allowed.iter().copied().filter(|text| !key.not_yet.contains(text))))
        }
        Bounds::Replicas => Some("`*`, or pairs `PARTITION:NODE` separated by commas".to_owned()),
    }
}
