//! `cargo xtask codegen [--jar PATH] [--check]`: generates the messages of `tailrace-kafka-wire` from the
//! definitions in Kafka's client library. The repository contains neither these definitions nor their prose:
//! the generated Rust has its own wording.

mod definition;
mod emit;
mod failure;
mod jar;
mod keys;
mod layout;
mod naming;
mod secrets;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use definition::Definition;
use failure::failure;

/// The folder of the generated library code, from the repository root.
const MESSAGES_DIR: &str = "crates/kafka-wire/src/messages";
/// The generated schema description for tests, from the repository root.
const TEST_SCHEMA: &str = "crates/kafka-wire/tests/wire/schema_data.rs";

/// Generated files: their paths from the repository root, and their texts.
type Files = BTreeMap<PathBuf, String>;

/// Runs the command with the arguments that follow its name.
///
/// # Errors
/// A message that says what to do about it.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let jar = jar::locate(options.jar.as_deref())?;
    let definitions = jar::definitions(&jar)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent folder")?;
    let staging = root.join("target/codegen/staged");
    let files = stage(root, &staging, generate(&definitions)?)?;
    if options.check { check(root, &files) } else { install(root, &files) }
}

/// Reports whether Kafka's client library is here, or Maven, which can fetch it.
pub(crate) fn is_possible() -> bool {
    jar::is_here() || Command::new("mvn").arg("--version").output().is_ok()
}

#[derive(Default)]
struct Options {
    jar: Option<PathBuf>,
    check: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--check" => options.check = true,
                "--jar" => {
                    let path = arguments.next().ok_or("--jar needs the path of a kafka-clients jar")?;
                    options.jar = Some(path.into());
                }
                other => {
                    return Err(format!("unknown argument '{other}'; usage: codegen [--jar PATH] [--check]"));
                }
            }
        }
        Ok(options)
    }
}

fn generate(definitions: &[Definition]) -> Result<Files, String> {
    let mut files = Files::new();
    let mut messages = Vec::new();
    for key in keys::GENERATED {
        for kind in ["request", "response"] {
            let definition = definitions
                .iter()
                .find(|d| d.api_key == Some(*key) && d.kind == kind)
                .ok_or_else(|| format!("the jar has no {kind} definition of API key {key}"))?;
            messages.push(layout::Message::resolve(definition)?);
        }
    }
    secrets::check(&messages)?;
    for message in &messages {
        let path = Path::new(MESSAGES_DIR).join(format!("{}.rs", naming::snake(&message.name)));
        files.insert(path, emit::message(message));
    }
    let apis = layout::apis(definitions)?;
    files.insert(Path::new(MESSAGES_DIR).join("api_key.rs"), emit::api_keys(&apis));
    files.insert(Path::new(MESSAGES_DIR).join("mod.rs"), emit::module(&messages));
    files.insert(TEST_SCHEMA.into(), emit::test_schema(&messages));
    Ok(files)
}

/// Writes the files below `staging`, formats them with rustfmt, and reads them back.
fn stage(root: &Path, staging: &Path, files: Files) -> Result<Files, String> {
    if staging.exists() {
        fs::remove_dir_all(staging).map_err(|error| failure(staging, &error))?;
    }
    let mut paths = Vec::new();
    for (path, text) in &files {
        let staged = staging.join(path);
        write(&staged, text)?;
        // The description for tests is a table: one line per field reads better than the seven that rustfmt
        // makes of it.
        if path != Path::new(TEST_SCHEMA) {
            paths.push(staged);
        }
    }
    let status = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(root.join("rustfmt.toml"))
        .args(&paths)
        .status()
        .map_err(|error| {
            format!("cannot run rustfmt: {error}; install it with `rustup component add rustfmt`")
        })?;
    if !status.success() {
        return Err(format!("rustfmt rejected generated code below {}", staging.display()));
    }
    let read = |path: PathBuf| Ok((path.clone(), fs::read_to_string(staging.join(&path))?));
    files.into_keys().map(read).collect::<io::Result<_>>().map_err(|error| failure(staging, &error))
}

fn check(root: &Path, files: &Files) -> Result<(), String> {
    let mut differing: Vec<_> = files
        .iter()
        .filter(|(path, text)| fs::read_to_string(root.join(path)).ok().as_ref() != Some(*text))
        .map(|(path, _)| path.clone())
        .collect();
    differing.extend(stale(root, files)?);
    match differing.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(format!(
            "{} generated files are out of date, the first is {}; run `cargo xtask codegen`",
            differing.len(),
            first.display()
        )),
    }
}

fn install(root: &Path, files: &Files) -> Result<(), String> {
    for path in stale(root, files)? {
        fs::remove_file(root.join(&path)).map_err(|error| failure(&path, &error))?;
    }
    files.iter().try_for_each(|(path, text)| write(&root.join(path), text))
}

/// Files in the messages folder that are no longer generated.
fn stale(root: &Path, files: &Files) -> Result<Vec<PathBuf>, String> {
    let folder = root.join(MESSAGES_DIR);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(&folder).map_err(|error| failure(&folder, &error))?;
    let paths = entries.filter_map(Result::ok).map(|entry| Path::new(MESSAGES_DIR).join(entry.file_name()));
    Ok(paths.filter(|path| !files.contains_key(path)).collect())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().ok_or("the path of a generated file has no folder")?;
    fs::create_dir_all(folder).map_err(|error| failure(folder, &error))?;
    fs::write(path, text).map_err(|error| failure(path, &error))
}
