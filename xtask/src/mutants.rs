//! Plants bugs, one at a time, and says which of them nobody notices: the list is `xtask/mutants.toml`.
//!
//! They are planted in a copy of the tree (`target/mutants/tree`), which has a target folder of its own, so that work goes
//! on beside it. A bug counts as noticed if what should notice it fails, and everything compiles.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Deserialize;

use crate::run::root;

const USAGE: &str = "usage: cargo xtask mutants [--list] [PART OF A NAME...]";

/// A bug must be noticed within so many seeds of a simulator.
const SEEDS: &str = "500";

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
    /// What stands there, once.
    find: String,
    /// What stands there instead.
    replace: String,
    /// A simulator (`nodes`, `group`), or the arguments of `cargo test`.
    noticed_by: String,
}

/// What became of a bug.
enum Outcome {
    Noticed(String),
    Survived,
    /// Nothing was tried.
    Unusable(String),
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
        return Err("no mutant has such a name".to_owned());
    }
    if arguments.iter().any(|argument| argument == "--list") {
        for mutant in wanted {
            println!("{}: {} ({})", mutant.name, mutant.file.display(), mutant.noticed_by);
        }
        return Ok(());
    }
    let tree = copy_tree()?;
    let mut left = Vec::new();
    for mutant in wanted {
        let began = Instant::now();
        let (told, is_left) = match plant(&tree, mutant)? {
            Outcome::Noticed(how) => (format!("noticed: {how}"), false),
            Outcome::Survived => ("SURVIVED".to_owned(), true),
            Outcome::Unusable(reason) => (format!("CANNOT BE PLANTED: {reason}"), true),
        };
        println!("{} ({:.0} s): {told}", mutant.name, began.elapsed().as_secs_f64());
        if is_left {
            left.push(mutant.name.as_str());
        }
    }
    if left.is_empty() { Ok(()) } else { Err(format!("{} not noticed: {}", left.len(), left.join(", "))) }
}

/// Copies what git knows, or would add, of this tree. A file that is the same is left as it is, so that cargo builds little.
fn copy_tree() -> Result<PathBuf, String> {
    let (from, to) = (root(), root().join("target/mutants/tree"));
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(&from)
        .output()
        .map_err(|error| format!("git: {error}"))?;
    let names = String::from_utf8(listed.stdout).map_err(|error| error.to_string())?;
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        // One that was deleted is listed as well.
        let Ok(content) = fs::read(from.join(name)) else { continue };
        write_if_changed(&to.join(name), &content).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(to)
}

fn write_if_changed(path: &Path, content: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|before| before == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)
}

/// Plants one bug, and takes it out again.
fn plant(tree: &Path, mutant: &Mutant) -> Result<Outcome, String> {
    let path = tree.join(&mutant.file);
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let before = fs::read_to_string(&path).map_err(failed)?;
    match before.matches(&mutant.find).count() {
        1 => {}
        found => return Ok(Outcome::Unusable(format!("what is to be replaced stands there {found} times"))),
    }
    fs::write(&path, before.replacen(&mutant.find, &mutant.replace, 1)).map_err(failed)?;
    let outcome = look(tree, mutant);
    fs::write(&path, before).map_err(failed)?;
    outcome
}

fn look(tree: &Path, mutant: &Mutant) -> Result<Outcome, String> {
    let simulator = ["nodes", "group"].contains(&mutant.noticed_by.as_str());
    let campaign = ["run", "--quiet", "-p", "tailrace-sim", "--example", "campaign", "--"];
    let test: Vec<&str> = mutant.noticed_by.split(' ').collect();
    let built = if simulator {
        cargo(tree, &["build", "--quiet", "-p", "tailrace-sim", "--example", "campaign"])?
    } else {
        let mut build = vec!["test", "--quiet", "--no-run"];
        build.extend(test.iter().take_while(|argument| **argument != "--"));
        cargo(tree, &build)?
    };
    if !built.is_fine {
        return Ok(Outcome::Unusable(format!("it does not compile:\n{}", built.text)));
    }
    if simulator {
        let mut arguments = campaign.to_vec();
        arguments.extend(["noticed", &mutant.noticed_by, "0", SEEDS]);
        let looked = cargo(tree, &arguments)?;
        let line = looked.text.lines().find(|line| line.starts_with("seed ")).map(str::to_owned);
        return Ok(line.map_or(Outcome::Survived, Outcome::Noticed));
    }
    let mut arguments = vec!["test", "--quiet"];
    arguments.extend(test);
    let tested = cargo(tree, &arguments)?;
    if tested.is_fine {
        return Ok(Outcome::Survived);
    }
    let failed =
        tested.text.lines().find(|line| line.ends_with("--- FAILED") || line.contains("panicked at"));
    Ok(Outcome::Noticed(failed.unwrap_or("the tests failed").to_owned()))
}

/// What a program said, and whether it ended well.
struct Said {
    is_fine: bool,
    text: String,
}

fn cargo(tree: &Path, arguments: &[&str]) -> Result<Said, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(arguments)
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", root().join("target/mutants/target"))
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Said { is_fine: output.status.success(), text: text.join("\n") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bug_of_the_list_can_be_planted_in_the_code_as_it_is() {
        let text = fs::read_to_string(root().join("xtask/mutants.toml")).expect("the list");
        let list: List = toml::from_str(&text).expect("as it is described");
        for Mutant { name, file, find, replace, .. } in list.mutant {
            let code = fs::read_to_string(root().join(&file)).expect("a file");
            assert_eq!(code.matches(&find).count(), 1, "{name}: in {}", file.display());
            assert_ne!(find, replace, "{name}");
        }
    }
}
