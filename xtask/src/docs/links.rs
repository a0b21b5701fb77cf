//! Checks the links in Markdown files to files of this repository and to their headings. Does not follow
//! links to the web.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::texts::{Text, prose_lines};
use xtask::run::root;

/// Returns one complaint for each broken link.
pub(super) fn check(files: &[Text]) -> Vec<String> {
    let documents: Vec<&Text> = files.iter().filter(|file| file.has_extension("md")).collect();
    let anchors: BTreeMap<&Path, BTreeSet<String>> =
        documents.iter().map(|file| (file.path.as_path(), anchors(&file.content))).collect();
    let mut complaints = Vec::new();
    for document in documents {
        for (line, target) in links(&document.content) {
            if let Some(reason) = broken(&document.path, &target, &anchors) {
                complaints.push(format!("{}:{line}: link to {target}: {reason}", document.path.display()));
            }
        }
    }
    complaints
}

/// Says why a link is broken. `None` if it is not.
fn broken(from: &Path, target: &str, anchors: &BTreeMap<&Path, BTreeSet<String>>) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { from.to_owned() } else { normal(&from.parent()?.join(file)) };
    if !root().join(&path).exists() {
        return Some("no such file");
    }
    let known = anchor.and_then(|anchor| Some((anchor, anchors.get(path.as_path())?)));
    known.and_then(|(anchor, known)| (!known.contains(anchor)).then_some("no such heading"))
}

/// Resolves `..` and `.` in a path.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// The targets of `[text](target)` outside code, with their line numbers, which start at 1.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, content) in prose_lines(text) {
        let content = without_code(content);
        let mut rest = content.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let Some(end) = rest.find(')') else { break };
            let target = rest[..end].split_whitespace().next().unwrap_or_default();
            found.push((line, target.to_owned()));
            rest = &rest[end..];
        }
    }
    found
}

/// Removes the text between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// The anchors that a forge generates for the headings of a file: lower case, hyphens for spaces, no
/// punctuation, and a number for each repetition.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for (_, line) in prose_lines(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug = slug(heading.trim());
        let times = seen.entry(slug.clone()).or_default();
        anchors.insert(if *times == 0 { slug } else { format!("{slug}-{times}") });
        *times += 1;
    }
    anchors
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_get_the_anchors_of_a_forge() {
        let text =
            "# Kafka's `acks`, and more\n## Twice\n```\n# no heading\n```\n## Twice\n#no heading either\n";
        let wanted = ["kafkas-acks-and-more", "twice", "twice-1"].map(str::to_owned);
        assert_eq!(anchors(text), BTreeSet::from(wanted));
    }

    #[test]
    fn links_in_code_are_none() {
        let text = "see [a](b.md#c) and [d](e.rs), not `[f](g)`\n```\n[h](i)\n```\n[j](<k> \"title\")\n";
        let wanted = [(1, "b.md#c"), (1, "e.rs"), (5, "<k>")];
        assert_eq!(links(text), wanted.map(|(line, target)| (line, target.to_owned())));
    }

    #[test]
    fn a_link_leads_to_a_file_and_to_its_heading() {
        let readme = Path::new("README.md");
        let anchors = BTreeMap::from([(readme, BTreeSet::from(["status".to_owned()]))]);
        let from = Path::new("docs/cli.md");
        assert_eq!(broken(from, "../README.md#status", &anchors), None);
        assert_eq!(broken(from, "https://example.org/x#y", &anchors), None);
        assert_eq!(broken(from, "../README.md#state", &anchors), Some("no such heading"));
        assert_eq!(broken(from, "README.md", &anchors), Some("no such file"));
        assert_eq!(broken(readme, "#state", &anchors), Some("no such heading"));
    }
}
