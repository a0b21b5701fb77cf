//! Passes the commit that the program was built from to the compiler, for results of `tailrace bench`. The
//! commit stays empty without git.

use std::process::Command;

/// Git pathspecs of the program's sources. A change under them makes a different program.
const SOURCES: [&str; 4] =
    [":(glob)crates/*/src/**", ":(glob)crates/*/Cargo.toml", "Cargo.toml", "Cargo.lock"];

fn main() {
    // Only results of `tailrace bench` contain the commit. Without that feature, changes elsewhere need not
    // rebuild this package.
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_BENCH").is_none() {
        return;
    }
    println!("cargo::rerun-if-env-changed=TAILRACE_COMMIT");
    let told = std::env::var("TAILRACE_COMMIT").ok().filter(|commit| !commit.is_empty());
    println!("cargo::rustc-env=TAILRACE_COMMIT={}", told.or_else(commit).unwrap_or_default());
}

/// The commit, marked if the working tree differs from it.
fn commit() -> Option<String> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    // The commit changes with HEAD, and with the log of the branch that HEAD points to.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", name])?;
        if std::path::Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed={top}/Cargo.lock");
    for member in std::fs::read_dir(format!("{top}/crates")).ok()?.flatten() {
        println!("cargo::rerun-if-changed={}", member.path().join("src").display());
    }
    let head = git(&["rev-parse", "HEAD"])?;
    let mut status = vec!["-C", top.as_str(), "status", "--porcelain", "--"];
    status.extend(SOURCES);
    let changed = git(&status)?;
    Some(if changed.is_empty() { head } else { format!("{head}, changed") })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
