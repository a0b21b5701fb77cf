//! Runs other programs from the root of the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_owned()
}

/// The folder of what cargo builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs cargo and waits for it.
pub fn cargo(arguments: &[&str]) -> Result<(), String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    run(Command::new(cargo).args(arguments).current_dir(root()))
}

/// Runs a program and waits for it. Any exit status other than 0 is an error that shows the command.
pub fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown} could not be started: {error}")),
    }
}

/// Returns the files that git knows or would add, from the root of the workspace. A deleted file is still
/// listed.
pub fn tracked() -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8(output.stdout).map_err(|error| format!("git ls-files: {error}"))?;
    Ok(names.split_terminator('\0').map(str::to_owned).collect())
}
