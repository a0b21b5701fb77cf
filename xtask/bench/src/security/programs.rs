//! The programs that measure.

use std::path::PathBuf;

use xtask::run::{self, target};

/// The measuring programs.
pub(super) struct Programs {
    pub(super) load: PathBuf,
    pub(super) decisions: PathBuf,
}

impl Programs {
    pub(super) fn build() -> Result<Self, String> {
        let example = |package: &str, name: &str| {
            run::cargo(&["build", "--release", "--package", package, "--example", name])?;
            Ok::<_, String>(target().join("release/examples").join(name))
        };
        Ok(Self {
            load: example("tailrace-bench", "security_load")?,
            decisions: example("tailrace-node", "remembered_decision_cost")?,
        })
    }
}
