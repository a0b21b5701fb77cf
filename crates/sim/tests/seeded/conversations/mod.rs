//! Conversations with replicas, as text: a line that begins with `>` is done, the lines below it are what comes of it.
#![expect(clippy::unwrap_used, reason = "a test says by panicking what went wrong")]

mod replicas;
mod solo;
mod wire;

use std::fmt::Write as _;

/// Who is talked to.
trait Partner {
    /// Does what `line` says. What comes of it, a line each.
    fn say(&mut self, line: &str) -> Vec<String>;
}

/// Says every line of `script` and compares.
fn play(partner: &mut dyn Partner, name: &str, script: &str) {
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
    assert!(heard == script, "{name} goes otherwise:\n{heard}");
}

macro_rules! conversations {
    ($partner:expr, $folder:literal: $($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            let script = include_str!(concat!($folder, "/", stringify!($name), ".txt"));
            crate::conversations::play(&mut $partner, stringify!($name), script);
        })*
    };
}
use conversations;
