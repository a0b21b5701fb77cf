//! Conversations with replicas, as text. A line that starts with `>` is a step, and the lines below it are
//! its results.
//!
//! TAILRACE_UPDATE=1 writes the actual results into the scripts. Read the difference before you keep it.
#![expect(clippy::unwrap_used, reason = "tests report failures by panicking")]

mod replicas;
mod solo;
mod wire;

use std::fmt::Write as _;
use std::path::Path;

/// The partner of a conversation.
trait Partner {
    /// Carries out `line`. Returns the results, one per line.
    fn say(&mut self, line: &str) -> Vec<String>;
}

/// Plays every line of the script and compares.
fn play(partner: &mut dyn Partner, path: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeded/conversations").join(path);
    let script = std::fs::read_to_string(&path).unwrap();
    let mut heard = String::new();
    for line in script.lines() {
        match line.strip_prefix("> ") {
            Some(said) => {
                writeln!(heard, "{line}").unwrap();
                for answer in partner.say(said) {
                    writeln!(heard, "  {answer}").unwrap();
                }
            }
            None if line.is_empty() || line.starts_with('#') => writeln!(heard, "{line}").unwrap(),
            None => {}
        }
    }
    if std::env::var_os("TAILRACE_UPDATE").is_some() {
        return std::fs::write(&path, heard).unwrap();
    }
    assert!(heard == script, "{} differs:\n{heard}", path.display());
}

macro_rules! conversations {
    ($partner:expr, $folder:literal: $($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            crate::conversations::play(&mut $partner, concat!($folder, "/", stringify!($name), ".txt"));
        })*
    };
}
use conversations;
