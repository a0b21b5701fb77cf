//! docs/configuration.md, generated from the tables.

/// The text of docs/configuration.md.
pub fn configuration_markdown() -> String {
    String::new()
}
