//! Conversations with replicas, as text: a line that begins with `>` is done, the lines below it are what comes of it.
//!
//! With TAILRACE_UPDATE=1 what happens is written into the scripts. Read the difference before you keep it.
#![expect(clippy::unwrap_used, reason = "a test says by panicking what went wrong")]

mod replicas;
mod solo;
mod wire;

use std::fmt::Write as _;
use std::path::Path;

/// Who is talked to.
trait Partner {
    /// Does what `line` says. What comes of it, a line each.
    fn say(&mut self, line: &str) -> Vec<String>;
}

/// Says every line of `script` and compares.
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
    assert!(heard == script, "{} goes otherwise:\n{heard}", path.display());
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
