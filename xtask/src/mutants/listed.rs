//! The bugs of `xtask/mutants.toml`.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use serde::Deserialize;

use super::tree::{Outcome, Tree};
use xtask::run::root;

const USAGE: &str = "usage: cargo xtask mutants [--list] [PART OF A NAME...], or mutants --operators ...";

/// A simulator must notice a bug within this many seeds.
const SEEDS: u64 = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Mutant>,
}

/// One bug.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    /// What goes wrong, in a few words.
    name: String,
    /// The file, from the root of the workspace.
    file: PathBuf,
    /// The code to replace. It occurs once in the file.
    find: String,
    /// The code with the bug.
    replace: String,
    /// What must notice the bug: a simulator (`nodes`, `group`), or `cargo test` with these arguments.
    noticed_by: String,
}

impl Mutant {
    /// The arguments of `cargo test`. `None` if a simulator must notice the bug.
    fn test(&self) -> Option<Vec<&str>> {
        match self.noticed_by.as_str() {
            "nodes" | "group" => None,
            test => Some(test.split(' ').collect()),
        }
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    if arguments.iter().any(|argument| argument.starts_with("--") && argument != "--list") {
        return Err(USAGE.to_owned());
    }
    let text = fs::read_to_string(root().join("xtask/mutants.toml")).map_err(|error| error.to_string())?;
    let list: List = toml::from_str(&text).map_err(|error| format!("xtask/mutants.toml: {error}"))?;
    let parts: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let is_wanted =
        |mutant: &&Mutant| parts.is_empty() || parts.iter().any(|part| mutant.name.contains(*part));
    let wanted: Vec<&Mutant> = list.mutant.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        return Err("no mutant has a name with one of these parts".to_owned());
    }
    if arguments.iter().any(|argument| argument == "--list") {
        for mutant in wanted {
            println!("{}: {} ({})", mutant.name, mutant.file.display(), mutant.noticed_by);
        }
        return Ok(());
    }
    let tree = Tree::copy()?;
    // Run every test before any bug is planted, so that the unchanged tree is built once.
    wanted.iter().filter_map(|mutant| mutant.test()).for_each(|test| drop(tree.can_judge(&test)));
    let mut left = Vec::new();
    for mutant in wanted {
        let began = Instant::now();
        let (told, is_left) = match plant(&tree, mutant)? {
            Outcome::Noticed(how) => (format!("noticed: {how}"), false),
            Outcome::Survived => ("SURVIVED".to_owned(), true),
            Outcome::Unusable(reason) => (format!("CANNOT BE PLANTED: {reason}"), true),
            Outcome::Undecided(reason) => (format!("UNDECIDED: {reason}"), true),
        };
        println!("{} ({:.0} s): {told}", mutant.name, began.elapsed().as_secs_f64());
        if is_left {
            left.push(mutant.name.as_str());
        }
    }
    if left.is_empty() { Ok(()) } else { Err(format!("{} not noticed: {}", left.len(), left.join(", "))) }
}

fn plant(tree: &Tree, mutant: &Mutant) -> Result<Outcome, String> {
    let before = tree.read(&mutant.file)?;
    match before.matches(&mutant.find).count() {
        1 => {}
        found => return Ok(Outcome::Unusable(format!("the code to replace occurs {found} times"))),
    }
    let planted = before.replacen(&mutant.find, &mutant.replace, 1);
    let test = mutant.test();
    if let Some(Err(reason)) = test.as_ref().map(|test| tree.can_judge(test)) {
        return Ok(Outcome::Undecided(reason));
    }
    tree.judge(&mutant.file, &planted, || match (&test, mutant.noticed_by.as_str()) {
        (Some(test), _) => tree.test(test),
        (None, "nodes") => tree.simulate("nodes", SEEDS),
        (None, _) => tree.simulate("group", SEEDS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bug_of_the_list_can_be_planted_in_the_code_as_it_is() {
        let text = fs::read_to_string(root().join("xtask/mutants.toml")).expect("a readable list");
        let list: List = toml::from_str(&text).expect("a well-formed list");
        for Mutant { name, file, find, replace, .. } in list.mutant {
            let code = fs::read_to_string(root().join(&file)).expect("a readable file");
            assert_eq!(code.matches(&find).count(), 1, "{name}: in {}", file.display());
            assert_ne!(find, replace, "{name}");
        }
    }
}
