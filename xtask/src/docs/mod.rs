//! `cargo xtask docs`: writes the generated documents, and checks all of them.

mod links;
mod prose;
mod texts;

use std::fs;
use std::process::{Command, Stdio};

use xtask::run::root;

const CONFIGURATION: &str = "docs/configuration.md";

/// The maximum number of complaints to print.
const COMPLAINTS_MAX: usize = 50;

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    match arguments {
        [] => write(),
        [flag] if flag == "--check" => check(),
        _ => Err("usage: cargo xtask docs [--check]".to_owned()),
    }
}

fn write() -> Result<(), String> {
    fs::write(root().join(CONFIGURATION), reference()?)
        .map_err(|error| format!("{CONFIGURATION}: {error}"))?;
    println!("wrote {CONFIGURATION}");
    Ok(())
}

fn check() -> Result<(), String> {
    let files = texts::tracked()?;
    let mut complaints = generated()?;
    complaints.extend(links::check(&files));
    complaints.extend(prose::check(&files));
    if complaints.is_empty() {
        return Ok(());
    }
    complaints.iter().take(COMPLAINTS_MAX).for_each(|complaint| eprintln!("{complaint}"));
    let noun = if complaints.len() == 1 { "complaint" } else { "complaints" };
    Err(format!("{} {noun} about documents and comments", complaints.len()))
}

/// Complains about a generated document that is out of date.
fn generated() -> Result<Vec<String>, String> {
    let found = fs::read_to_string(root().join(CONFIGURATION))
        .map_err(|error| format!("{CONFIGURATION}: {error}"))?;
    let is_current = found == reference()?;
    Ok(if is_current {
        Vec::new()
    } else {
        vec![format!("{CONFIGURATION}: out of date: run cargo xtask docs")]
    })
}

/// Returns the reference of the settings, which `tailrace-config` prints. A dependency on that crate would
/// make every task compile it first.
fn reference() -> Result<String, String> {
    let output = Command::new("cargo")
        .args(["run", "--quiet", "-p", "tailrace-config", "--example", "reference"])
        .stderr(Stdio::inherit())
        .current_dir(root())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("the reference of the settings: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("the reference of the settings: {error}"))
}
