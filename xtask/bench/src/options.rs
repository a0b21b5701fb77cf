//! The arguments of `cargo xtask bench kafka`, and of the other comparisons with peers.

use std::path::PathBuf;

use super::parts::Part;

pub(super) const USAGE: &str = "usage: cargo xtask bench kafka [OPTIONS]
  --only PART[,PART]   of produce strict consume both latency fsync cold (all of them)
  --rounds N           rounds of every measurement (5, with --quick 2)
  --quick              small counts: shows whether it works, not how fast it is; kept apart from the report
  --peers DIR          the folder of the peers' scripts (../shared/peers from the root of the checkout)
  --tailrace PATH      the binary to measure (target/release/tailrace, which is built first)
  --out DIR            where the report and the raw lines go (docs/benchmarks and docs/benchmarks/raw)";

/// The maximum number of rounds. A larger number is a typing error.
const ROUNDS_MAX: u32 = 1000;

/// The arguments of a comparison whose parts have the type `P`.
#[derive(Debug, PartialEq)]
pub(super) struct Options<P> {
    pub(super) peers: Option<PathBuf>,
    pub(super) tailrace: Option<PathBuf>,
    pub(super) out: Option<PathBuf>,
    pub(super) rounds: u32,
    pub(super) parts: Vec<P>,
    pub(super) quick: bool,
}

impl Options<Part> {
    /// Parses the arguments of `bench kafka`.
    pub(super) fn parse(arguments: &[String]) -> Result<Self, String> {
        Self::parse_with(arguments, USAGE, Part::ALL.to_vec(), parts)
    }
}

impl<P> Options<P> {
    /// Parses arguments. `all` are the parts to run without `--only`, and `parts` parses its value.
    pub(super) fn parse_with(
        arguments: &[String],
        usage: &str,
        all: Vec<P>,
        parts: impl Fn(&str) -> Result<Vec<P>, String>,
    ) -> Result<Self, String> {
        let mut options =
            Self { peers: None, tailrace: None, out: None, rounds: 0, parts: all, quick: false };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value\n{usage}"));
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--peers" => options.peers = Some(value()?.into()),
                "--tailrace" => options.tailrace = Some(value()?.into()),
                "--out" => options.out = Some(value()?.into()),
                "--rounds" => options.rounds = rounds(value()?)?,
                "--only" => options.parts = parts(value()?)?,
                _ => return Err(format!("unknown argument '{argument}'\n{usage}")),
            }
        }
        if options.rounds == 0 {
            options.rounds = if options.quick { 2 } else { 5 };
        }
        Ok(options)
    }
}

/// Parses the value of `--rounds`.
pub(super) fn rounds(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(rounds) if (1..=ROUNDS_MAX).contains(&rounds) => Ok(rounds),
        _ => Err(format!("--rounds takes 1 to {ROUNDS_MAX}, not '{text}'")),
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

    fn parse(text: &str) -> Result<Options<Part>, String> {
        Options::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn defaults_are_everything_five_times() {
        let options = parse("").unwrap();
        assert_eq!(options.parts, Part::ALL);
        assert_eq!((options.rounds, options.quick), (5, false));
        assert_eq!(parse("--quick").unwrap().rounds, 2);
        assert_eq!(parse("--quick --rounds 3").unwrap().rounds, 3);
    }

    #[test]
    fn parts_keep_their_order() {
        assert_eq!(parse("--only fsync,produce,fsync").unwrap().parts, [Part::Produce, Part::Fsync]);
    }

    #[test]
    fn mistakes_are_named() {
        assert!(parse("--only speed").unwrap_err().starts_with("no part 'speed'"));
        assert!(parse("--rounds 0").unwrap_err().contains("'0'"));
        assert!(parse("--peers").unwrap_err().starts_with("--peers needs a value"));
        assert!(parse("--fast").unwrap_err().starts_with("unknown argument '--fast'"));
    }
}
