//! The message definitions as the jar contains them: JSON with `//` comments.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::failure::failure;

/// The definition in one file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Definition {
    pub(super) api_key: Option<i16>,
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) valid_versions: String,
    #[serde(default)]
    pub(super) flexible_versions: String,
    #[serde(default)]
    pub(super) latest_version_unstable: bool,
    #[serde(default)]
    pub(super) fields: Vec<Field>,
    #[serde(default)]
    pub(super) common_structs: Vec<CommonStruct>,
}

/// A structure that several fields use.
#[derive(Debug, Deserialize)]
pub(super) struct CommonStruct {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

/// A field. `fields` are those of its structure, if it defines one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Field {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) versions: String,
    pub(super) nullable_versions: Option<String>,
    pub(super) tagged_versions: Option<String>,
    pub(super) flexible_versions: Option<String>,
    pub(super) tag: Option<u32>,
    #[serde(default)]
    pub(super) ignorable: bool,
    pub(super) default: Option<Value>,
    #[serde(default)]
    pub(super) fields: Vec<Field>,
}

impl Definition {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| failure(path, &error))?;
        serde_json::from_str(&without_comments(&text)).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Removes every `//` comment that is not inside a string.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        kept.push_str(&line[..comment_start(line)]);
        kept.push('\n');
    }
    kept
}

/// The index at which the comment of a line starts, or the line's length.
fn comment_start(line: &str) -> usize {
    let bytes = line.as_bytes();
    let mut in_string = false;
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b'"' if index == 0 || bytes[index - 1] != b'\\' => in_string = !in_string,
            b'/' if !in_string && bytes.get(index + 1) == Some(&b'/') => return index,
            _ => {}
        }
    }
    line.len()
}

#[cfg(test)]
mod tests {
    use super::without_comments;

    #[test]
    fn comments_outside_of_strings_are_cut() {
        assert_eq!(without_comments("{ // a\n\"b\": \"// c\" } // d\n"), "{ \n\"b\": \"// c\" } \n");
    }
}
