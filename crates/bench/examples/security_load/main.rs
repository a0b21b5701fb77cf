//! The loads of `cargo xtask bench security`: raw requests over blocking sockets, so that the client costs
//! little beside the server, and costs the same with and without a login.
//!
//! `security_load LOAD name=value...` prints one line of figures: `blast name=value ...`.

mod kafka;
mod loads;
mod nats;
mod scram;
mod stream;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::process::ExitCode;
use std::str::FromStr;

/// Why a load failed.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The figures of a load, by name.
pub(crate) type Figures = Vec<(&'static str, f64)>;

/// The arguments, `name=value` each.
#[derive(Clone)]
pub(crate) struct Arguments(BTreeMap<String, String>);

impl Arguments {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let pair = |word: String| {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("{word} is not name=value"))?;
            Ok((name.to_owned(), value.to_owned()))
        };
        words.map(pair).collect::<Result<_, Failure>>().map(Self)
    }

    /// Returns a text that must be there.
    pub(crate) fn text(&self, name: &str) -> Result<&str, Failure> {
        self.0.get(name).map(String::as_str).ok_or_else(|| format!("{name}= is missing").into())
    }

    /// Returns a text that may be left out.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns a number that may be left out.
    pub(crate) fn number<T: FromStr<Err: Display>>(&self, name: &str, otherwise: T) -> Result<T, Failure> {
        let Some(text) = self.0.get(name) else { return Ok(otherwise) };
        text.parse().map_err(|error| format!("{name}={text}: {error}").into())
    }
}

/// Allows as many open files as the system lets this user have.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it, loads with many connections fail and say so.
    let _ = setrlimit(Resource::Nofile, limit);
}

fn main() -> ExitCode {
    raise_open_files();
    let mut words = std::env::args().skip(1);
    let load = words.next().unwrap_or_default();
    let outcome = Arguments::parse(words).and_then(|arguments| loads::run(&load, &arguments));
    match outcome {
        Ok(figures) => {
            let shown: Vec<String> = figures.iter().map(|(name, value)| format!("{name}={value}")).collect();
            println!("blast {}", shown.join(" "));
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("security_load {load}: {reason}");
            ExitCode::FAILURE
        }
    }
}
