//! The command line, which the Go program shares.

/// The usage text.
pub(crate) const USAGE: &str = "usage: subjects-bench PART SYSTEM [OPTIONS]
  PART     thousand three table threads storm growth churn memory
  SYSTEM   tailrace naive inverted-bitmap optimized-bitmap trie cs-trie (the Go program: nats nats-cached)
  --count N        subscriptions, 1000 or more (100000)
  --threads N,N    threads of part threads; the sum of all in part storm (1)
  --writes P,P     per cent of operations that unsubscribe and subscribe (0)
  --seconds S      time of each measurement (0.3)
  --seed N         of all patterns and subjects (42)";

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The part of the benchmark.
    pub part: String,
    /// The algorithm.
    pub system: String,
    /// Number of subscriptions.
    pub count: usize,
    /// Numbers of threads, measured one after another.
    pub threads: Vec<usize>,
    /// Percentages of writes, measured one after another.
    pub writes: Vec<usize>,
    /// Seconds per measurement.
    pub seconds: f64,
    /// The seed of all randomness.
    pub seed: u64,
}

impl Options {
    /// Parses the arguments.
    ///
    /// # Errors
    /// What is wrong with them, with the usage.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let [part, system, rest @ ..] = arguments else { return Err(USAGE.to_owned()) };
        let mut options = Self {
            part: part.clone(),
            system: system.clone(),
            count: 100_000,
            threads: vec![1],
            writes: vec![0],
            seconds: 0.3,
            seed: 42,
        };
        for pair in rest.chunks(2) {
            let [name, value] = pair else { return Err(format!("{} needs a value\n{USAGE}", pair[0])) };
            let bad = || format!("{name} does not take '{value}'\n{USAGE}");
            match name.as_str() {
                "--count" => options.count = value.parse().map_err(|_| bad())?,
                "--threads" => options.threads = list(value).ok_or_else(bad)?,
                "--writes" => options.writes = list(value).ok_or_else(bad)?,
                "--seconds" => options.seconds = value.parse().map_err(|_| bad())?,
                "--seed" => options.seed = value.parse().map_err(|_| bad())?,
                _ => return Err(format!("unknown argument '{name}'\n{USAGE}")),
            }
        }
        let sane = (1_000..=100_000_000).contains(&options.count)
            && options.threads.iter().all(|threads| (1..=1024).contains(threads))
            && options.writes.iter().all(|percent| *percent <= 100)
            && (0.001..=3600.0).contains(&options.seconds);
        if sane { Ok(options) } else { Err(format!("a number is out of range\n{USAGE}")) }
    }
}

fn list(text: &str) -> Option<Vec<usize>> {
    text.split(',').map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn lists_and_defaults() {
        let options = parse("threads tailrace --threads 1,2,4 --writes 0,50").unwrap();
        assert_eq!((options.threads, options.writes), (vec![1, 2, 4], vec![0, 50]));
        assert_eq!((options.count, options.seed), (100_000, 42));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(parse("table").is_err());
        assert!(parse("table trie --count").unwrap_err().starts_with("--count needs a value"));
        assert!(parse("table trie --count many").unwrap_err().starts_with("--count does not take 'many'"));
        assert!(parse("table trie --threads 0").is_err());
    }
}
