//! Finds long lines in documents and comments, and the habits of writing that docs/adr/0019 abandoned.

use super::texts::{Text, prose_lines};

/// The limit for documents and comments. Tables, code, and lines with a very long word may be longer.
const COLUMNS_MAX: usize = 110;

/// Texts that programs generate.
const GENERATED: [&str; 3] = [
    "crates/kafka-wire/src/messages/",
    "crates/kafka-wire/tests/wire/schema_data.rs",
    "docs/configuration.md",
];

/// Files that must mention the habits.
const ABOUT_HABITS: [&str; 2] = ["xtask/src/docs/prose.rs", "docs/adr/0019-plain-english.md"];

/// Wordings to avoid, in lower case, and what to write instead.
const HABITS: [(&str, &str); 11] = [
    ("whoever", "say who"),
    ("whomever", "say who"),
    ("anew", "again, or from scratch"),
    ("takes note", "records"),
    ("take note", "record"),
    ("that is alone", "standalone"),
    ("for want of", "without, or because there is no"),
    ("manieth", "index, or number"),
    ("such a one", "name it"),
    ("cannot be had", "is unavailable"),
    ("by nobody", "name who does it, in the active voice"),
];

/// Returns one complaint for each long line and for each line with a habit.
pub(super) fn check(files: &[Text]) -> Vec<String> {
    files.iter().filter(|file| is_ours(file)).flat_map(of_file).collect()
}

fn is_ours(file: &Text) -> bool {
    let path = file.path.to_string_lossy();
    let is_known = ["md", "rs", "sh", "py", "toml", "go", "java", "js", "yml", "txt"]
        .iter()
        .any(|kind| file.has_extension(kind));
    (is_known || path == ".ci/run") && !GENERATED.iter().any(|generated| path.starts_with(generated))
}

fn of_file(file: &Text) -> Vec<String> {
    let path = file.path.to_string_lossy();
    let lines: Vec<(usize, &str)> = if file.has_extension("md") {
        prose_lines(&file.content).collect()
    } else {
        file.content.lines().enumerate().map(|(at, line)| (at + 1, line)).collect()
    };
    let mut complaints = Vec::new();
    for (number, line) in lines {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX && is_prose(file, line) {
            complaints.push(format!("{path}:{number}: {columns} columns, {COLUMNS_MAX} at most"));
        }
        if ABOUT_HABITS.iter().any(|about| path == *about) {
            continue;
        }
        if let Some((habit, better)) = habit(line) {
            complaints.push(format!("{path}:{number}: \"{habit}\": {better}"));
        }
    }
    complaints
}

/// Reports whether a line is prose that its author could have wrapped.
fn is_prose(file: &Text, line: &str) -> bool {
    let text = line.trim_start();
    let is_written = if file.has_extension("md") {
        !text.starts_with('|')
    } else if ["rs", "go", "java", "js"].iter().any(|kind| file.has_extension(kind)) {
        text.starts_with("//")
    } else {
        // Scripts of conversations have their notes on one line each, as golden files.
        text.starts_with('#') && !file.has_extension("txt")
    };
    // A line with a very long word, such as a URL, cannot be wrapped.
    is_written && text.split_whitespace().all(|word| word.len() < COLUMNS_MAX / 2)
}

/// The first habit in a line, as whole words. Words of a name are words, too: `is_loaded_anew`.
fn habit(line: &str) -> Option<&(&'static str, &'static str)> {
    let line = line.to_lowercase().replace('_', " ");
    HABITS.iter().find(|(habit, _)| {
        line.match_indices(habit).any(|(at, _)| {
            let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            !is_part(line[..at].chars().next_back()) && !is_part(line[at + habit.len()..].chars().next())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str, content: &str) -> Text {
        Text { path: path.into(), content: content.to_owned() }
    }

    #[test]
    fn habits_are_found_as_words() {
        assert!(habit("// Whoever asks").is_some() && habit("it is loaded anew.").is_some());
        assert!(habit("fn who_loads_anew()").is_some());
        assert!(habit("a canewed b").is_none() && habit("as it was").is_none());
    }

    #[test]
    fn what_a_person_can_break_may_not_be_long() {
        let long = "word ".repeat(30);
        let complaints = |path, content: &str| of_file(&text(path, content)).len();
        assert_eq!(complaints("a.md", &long), 1);
        assert_eq!(complaints("a.md", &format!("| {long} |\n```\n{long}\n```\n")), 0);
        assert_eq!(complaints("a.rs", &format!("// {long}\nlet x = \"{long}\";\n")), 1);
        assert_eq!(complaints("a.sh", &format!("# {long}\necho {long}\n")), 1);
        assert_eq!(complaints("a.md", &format!("see {}", "x".repeat(120))), 0);
    }
}
