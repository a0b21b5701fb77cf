//! Passes the commit and the build to the compiler, for `tailrace --version` and the results of `tailrace
//! bench`. Without git the commit is unknown.

use std::process::Command;

/// Git pathspecs of the program's sources. A change under them makes a different program.
const SOURCES: [&str; 4] =
    [":(glob)crates/*/src/**", ":(glob)crates/*/Cargo.toml", "Cargo.toml", "Cargo.lock"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=TAILRACE_COMMIT");
    let told = std::env::var("TAILRACE_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = told.or_else(commit).unwrap_or_default();
    println!("cargo::rustc-env=BUILT_FROM={commit}");
    let shown = if commit.is_empty() { "unknown" } else { &commit };
    println!("cargo::rustc-env=BUILT_FROM_SHOWN={shown}");
    println!("cargo::rustc-env=BUILT_AS={}", build());
    // cargo forgets `strip = true` for a package with an `opt-level` of its own, as this one has.
    if is("PROFILE", "release") && is("DEBUG", "false") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}

fn is(variable: &str, wanted: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| value == wanted)
}

/// Returns the profile, the target, the compiler and the features of this build.
fn build() -> String {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let rustc = Command::new(variable("RUSTC")).arg("--version").output();
    let rustc =
        rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    // "rustc 1.95.0 (59807616e 2026-04-14)"
    let rustc: Vec<&str> = rustc.split(' ').take(2).collect();
    let has = |feature: &str| std::env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let features = match (has("BENCH"), has("BENCH_KAFKA")) {
        (_, true) => "with bench and librdkafka",
        (true, false) => "with bench",
        (false, false) => "without bench",
    };
    [&variable("PROFILE"), &variable("TARGET"), &rustc.join(" "), features].join(", ")
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
