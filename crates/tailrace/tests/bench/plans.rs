//! Plans in temporary folders, and their results.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;

/// The minimum that a plan needs besides a system.
pub(crate) const WORKLOAD: &str =
    "[[workload]]\nname = 'w'\nrate = 100\nduration = '200ms'\nwarm-up = '0s'\n";

/// Standard output of a plan that ran to its end. The generator may have been late on a busy machine; that is
/// not what is tested.
#[track_caller]
pub(crate) fn ran(output: &Output) -> &[u8] {
    let text = String::from_utf8_lossy(&output.stderr);
    let is_late = text.contains("are invalid or measured nothing") && !text.contains(" failed");
    let status = output.status.code();
    assert!(status == Some(0) || (status == Some(1) && is_late), "{status:?} {text}");
    &output.stdout
}

/// A plan in a folder, with a folder for its results.
pub(crate) struct Plan {
    dir: tempfile::TempDir,
    path: String,
    out: String,
}

impl Plan {
    pub(crate) fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let name = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let (path, out) = (name("plan.toml"), name("out"));
        std::fs::write(&path, text).unwrap();
        Self { dir, path, out }
    }

    /// The arguments after `bench run`.
    pub(crate) fn words(&self) -> [&str; 3] {
        [&self.path, "--out", &self.out]
    }

    /// A path in the folder of results.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("out").join(name)
    }

    /// The result of `SYSTEM/WORKLOAD/round-N`.
    pub(crate) fn result(&self, run: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.file(run).join("result.json")).unwrap()).unwrap()
    }

    /// Writes a result as if it had been measured.
    pub(crate) fn put(&self, run: &str, result: &Value) {
        std::fs::create_dir_all(self.file(run)).unwrap();
        std::fs::write(self.file(run).join("result.json"), result.to_string()).unwrap();
    }
}
