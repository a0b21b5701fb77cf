//! Third-party programs that tasks need. A task uses the one on the path if it has the right version.
//! Otherwise the task installs it into `target/tools`, once.

use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::run::{self, root};

/// A program from crates.io.
pub(crate) struct Tool {
    /// The name of the executable.
    pub(crate) program: &'static str,
    /// The package on crates.io.
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    /// The package on PyPI that contains it ready-built, if there is one.
    pub(crate) wheel: Option<&'static str>,
    pub(crate) default_features: bool,
    /// Worth the time that optimizing it takes. The others are built like a debug build, in a third of the
    /// time.
    pub(crate) is_optimized: bool,
}

/// Checks Kafka histories of simulated runs, and of real ones (`interop/cluster.sh`).
pub(crate) const ADYA: Tool = Tool {
    program: "adya",
    package: "adya",
    version: "0.1.0",
    wheel: None,
    default_features: false,
    is_optimized: true,
};

pub(crate) const CARGO_DENY: Tool = Tool {
    program: "cargo-deny",
    package: "cargo-deny",
    version: "0.20.2",
    wheel: None,
    default_features: true,
    is_optimized: false,
};

pub(crate) const CARGO_MACHETE: Tool = Tool {
    program: "cargo-machete",
    package: "cargo-machete",
    version: "0.9.2",
    wheel: None,
    default_features: true,
    is_optimized: false,
};

pub(crate) const TYPOS: Tool = Tool {
    program: "typos",
    package: "typos-cli",
    version: "1.52.0",
    wheel: Some("typos"),
    default_features: true,
    is_optimized: false,
};

impl Tool {
    /// Returns the path of the program, and installs it first if necessary.
    ///
    /// # Errors
    /// If it is neither on the path nor installed, and cannot be installed.
    pub(crate) fn locate(&self) -> Result<PathBuf, String> {
        let folder = root().join("target/tools");
        let mut known =
            [PathBuf::from(self.program), folder.join("bin").join(self.program), self.of_wheel(&folder)];
        if let Some(found) = known.iter().find(|program| self.is(program)) {
            return Ok(found.clone());
        }
        eprintln!("installing {} {} into target/tools", self.program, self.version);
        let [_, built, unpacked] = &mut known;
        if self.wheel.is_some() && self.unpack(&folder).is_ok() && self.is(unpacked) {
            return Ok(unpacked.clone());
        }
        let mut install = Command::new("cargo");
        install
            .args(["install", "--quiet", "--locked", "--force", "--version", self.version, "--root"])
            .arg(&folder);
        if !self.default_features {
            install.arg("--no-default-features");
        }
        if !self.is_optimized {
            install.arg("--debug").env("CARGO_PROFILE_DEV_DEBUG", "0");
        }
        eprintln!("{} is compiled, which takes minutes, once", self.program);
        // Flags and target folder of the calling build do not apply to tools.
        run::run(install.arg(self.package).env_remove("RUSTFLAGS").env_remove("CARGO_TARGET_DIR"))?;
        Ok(built.clone())
    }

    /// Reports whether `program` exists and has the wanted version.
    fn is(&self, program: &Path) -> bool {
        let output = Command::new(program).arg("--version").output();
        let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
        String::from_utf8_lossy(&text)
            .split_whitespace()
            .any(|word| word.trim_start_matches('v') == self.version)
    }

    /// The path of the program if it was installed from its wheel.
    fn of_wheel(&self, folder: &Path) -> PathBuf {
        folder.join("python").join(self.program).join("bin").join(self.program)
    }

    /// Installs the program from its wheel.
    fn unpack(&self, folder: &Path) -> Result<(), String> {
        let venv = folder.join("python").join(self.program);
        run::run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let wanted = format!("{}=={}", self.wheel.unwrap_or(self.package), self.version);
        let mut install = Command::new(venv.join("bin/pip"));
        run::run(install.args(["install", "--quiet", "--disable-pip-version-check", &wanted]))
    }
}
