//! The arguments of `cargo xtask bench subjects`.

use std::path::PathBuf;

use super::part::Part;
use crate::options::rounds;

pub(crate) const USAGE: &str = "usage: cargo xtask bench subjects [OPTIONS]
  --only PART[,PART]   of thousand three table million threads million-threads storm growth churn memory
                       (all of them)
  --rounds N           rounds of every measurement (5, with --quick 1)
  --seconds S          time of each measurement (0.3, with --quick 0.05)
  --quick              small counts: shows whether it works, not how fast it is
  --all-threads        up to 16 threads, however few cores there are (up to four for each core)
  --no-nats            without nats-server, which needs Go and, once, the network
  --write              write tables and plots to docs/benchmarks/subjects.md
  --write-only         the same from the raw lines of earlier runs, without measuring
  --worker DIR         the folder of the Rust programs (target/release, where they are built first)
  --nats PATH          the Go program (target/subjects-bench/nats, which is built first)
  --out DIR            where the raw lines go (target/subjects-bench)";

#[derive(Debug, Default, PartialEq)]
pub(super) struct Options {
    pub(super) parts: Vec<Part>,
    pub(super) rounds: u32,
    pub(super) seconds: f64,
    pub(super) quick: bool,
    pub(super) all_threads: bool,
    pub(super) no_nats: bool,
    pub(super) write: bool,
    pub(super) write_only: bool,
    pub(super) worker: Option<PathBuf>,
    pub(super) nats: Option<PathBuf>,
    pub(super) out: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self { parts: Part::ALL.to_vec(), ..Self::default() };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"));
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--all-threads" => options.all_threads = true,
                "--no-nats" => options.no_nats = true,
                "--write" => options.write = true,
                "--write-only" => options.write_only = true,
                "--only" => options.parts = parts(value()?)?,
                "--rounds" => options.rounds = rounds(value()?)?,
                "--seconds" => options.seconds = seconds(value()?)?,
                "--worker" => options.worker = Some(value()?.into()),
                "--nats" => options.nats = Some(value()?.into()),
                "--out" => options.out = Some(value()?.into()),
                _ => return Err(format!("unknown argument '{argument}'\n{USAGE}")),
            }
        }
        if options.rounds == 0 {
            options.rounds = if options.quick { 1 } else { 5 };
        }
        if options.seconds == 0.0 {
            options.seconds = if options.quick { 0.05 } else { 0.3 };
        }
        Ok(options)
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("--seconds takes 0.001 to 600, not '{text}'")),
    }
}

/// Parses the value of `--only`. The result is in the order of [`Part::ALL`], whatever the order of the
/// words.
fn parts(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    for word in text.split(',') {
        let known = Part::ALL.into_iter().find(|part| part.name() == word);
        parts.push(known.ok_or_else(|| format!("no part '{word}'\n{USAGE}"))?);
    }
    parts.sort_unstable();
    parts.dedup();
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn defaults_are_everything_five_times() {
        let options = parse("").unwrap();
        assert_eq!((options.parts.as_slice(), options.rounds, options.seconds), (&Part::ALL[..], 5, 0.3));
        let quick = parse("--quick").unwrap();
        assert_eq!((quick.rounds, quick.seconds), (1, 0.05));
        assert_eq!(parse("--quick --rounds 2 --seconds 1").unwrap().seconds, 1.0);
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(parse("--only churn,three,churn").unwrap().parts, [Part::Three, Part::Churn]);
        assert!(parse("--only speed").unwrap_err().starts_with("no part 'speed'"));
        assert!(parse("--seconds 0").unwrap_err().contains("'0'"));
        assert!(parse("--nats").unwrap_err().starts_with("--nats needs a value"));
    }
}
