//! Builds the measuring programs, or uses those that were built elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::options::Options;
use super::part::NATS;
use super::plan::Job;
use xtask::run::{self, root, target};

const PACKAGE: &str = "tailrace-subjects-bench";
const GO_FOLDER: &str = "crates/subjects-bench/go";
const GO_BINARY: &str = "target/subjects-bench/nats";
const GO_MODULE: &str = "github.com/nats-io/nats-server/v2";

pub(super) struct Programs {
    folder: PathBuf,
    nats: Option<PathBuf>,
}

impl Programs {
    pub(super) fn build(options: &Options) -> Result<Self, String> {
        let folder = match &options.worker {
            Some(folder) => absolute(folder)?,
            None => {
                run::cargo(&["build", "--release", "--package", PACKAGE, "--bins"])?;
                target().join("release")
            }
        };
        let nats = match &options.nats {
            _ if options.no_nats => None,
            Some(path) => Some(absolute(path)?),
            None => Some(build_go()?),
        };
        Ok(Self { folder, nats })
    }

    /// The program of a job. A separate program counts memory, because counting takes time.
    pub(super) fn of(&self, job: &Job) -> Result<PathBuf, String> {
        match &self.nats {
            Some(nats) if NATS.contains(&job.system) => Ok(nats.clone()),
            None if NATS.contains(&job.system) => Err("nats is excluded by --no-nats".to_owned()),
            _ if job.part == "memory" => Ok(self.folder.join("subjects-bench-count")),
            _ => Ok(self.folder.join("subjects-bench")),
        }
    }

    /// The versions of nats-server and Go that the Go program was built with.
    pub(super) fn peer(&self) -> String {
        let Some(nats) = &self.nats else { return "without nats".to_owned() };
        let output = Command::new("go").args(["version", "-m"]).arg(nats).output();
        let text = output.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned());
        let go = text.split_whitespace().find(|word| word.starts_with("go1")).unwrap_or("of unknown version");
        let module = text.lines().find_map(|line| line.trim().strip_prefix("dep\t")?.strip_prefix(GO_MODULE));
        let version = module.and_then(|rest| rest.split_whitespace().next()).unwrap_or("of unknown version");
        format!("nats-server {version}, {go}")
    }
}

/// Draws the plots that `spec` describes into `folder`.
pub(super) fn draw(spec: &Path, folder: &Path) -> Result<(), String> {
    let (spec, folder) = (spec.display().to_string(), folder.display().to_string());
    let program = ["--package", PACKAGE, "--features", "plot", "--bin", "subjects-bench-plot"];
    let mut arguments = vec!["run", "--release", "--quiet"];
    arguments.extend(program);
    arguments.extend(["--", &spec, &folder]);
    run::cargo(&arguments)
}

fn build_go() -> Result<PathBuf, String> {
    let binary = root().join(GO_BINARY);
    let mut command = Command::new("go");
    command.args(["build", "-trimpath", "-o"]).arg(&binary).arg(".");
    // Without cgo, the program also runs on machines that have neither Go nor the same libraries.
    command.current_dir(root().join(GO_FOLDER)).env("CGO_ENABLED", "0");
    run::run(&mut command).map_err(|reason| {
        format!(
            "the Go program for nats-server was not built ({reason}): install Go, or measure with --no-nats"
        )
    })?;
    Ok(binary)
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))
}
