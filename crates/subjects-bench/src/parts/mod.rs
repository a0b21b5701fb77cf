//! The parts of the benchmark, each of which can be run alone.

mod churn;
mod growth;
mod memory;
mod storm;
mod table;
mod thousand;
mod threads;
mod three;

pub use crate::measure::HeapBytes;
use crate::options::Options;
use crate::systems::System;

/// Runs a part for one algorithm.
///
/// # Errors
/// There is no such part.
pub fn run<S: System>(options: &Options, heap: HeapBytes) -> Result<(), String> {
    match options.part.as_str() {
        "thousand" => thousand::run::<S>(options),
        "three" => three::run::<S>(options),
        "table" => table::run::<S>(options),
        "threads" => threads::run::<S>(options),
        "storm" => storm::run::<S>(options),
        "growth" => growth::run::<S>(options),
        "churn" => churn::run::<S>(options, heap),
        "memory" => memory::run::<S>(options, heap),
        other => return Err(format!("no part '{other}'")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems::naive::List;

    fn run_small(part: &str, count: usize) {
        let threads = if part == "threads" { vec![1, 2] } else { vec![2] };
        let options = Options {
            part: part.to_owned(),
            system: "list".to_owned(),
            count,
            threads,
            writes: vec![0, 50],
            seconds: 0.001,
            seed: 42,
        };
        run::<List>(&options, None).unwrap();
    }

    #[test]
    fn every_part_runs() {
        for part in ["three", "table", "threads", "storm", "growth", "memory"] {
            run_small(part, 1_000);
        }
    }

    #[test]
    fn an_unknown_part_is_named() {
        let options = Options::parse(&["speed".to_owned(), "trie".to_owned()]).unwrap();
        assert_eq!(run::<List>(&options, None), Err("no part 'speed'".to_owned()));
    }
}
