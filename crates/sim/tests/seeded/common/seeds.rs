//! Which seeds are played: by the environment, or some that are always the same and some of the day.

use std::io::Write;
use std::ops::Range;
use std::time::SystemTime;

/// Where seeds of days begin.
const DAYS: u64 = 1_000_000;

/// A number in the environment.
pub(crate) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// `TAILRACE_SEED=N` stands for that one, `TAILRACE_SEEDS=N` for the first N; else for none that were chosen.
pub(crate) fn chosen() -> Option<Range<u64>> {
    let one = number("TAILRACE_SEED").map(|seed| seed..seed + 1);
    one.or_else(|| number("TAILRACE_SEEDS").map(|seeds| 0..seeds))
}

/// So many seeds that no other day has.
pub(crate) fn of_the_day(count: u64) -> Range<u64> {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let today = since_1970.expect("the clock is right").as_secs() / 86_400;
    let first = DAYS + today * count;
    first..first + count
}

/// Prints them also where the output of tests that pass is hidden.
pub(crate) fn tell(what: &str, seeds: &[u64]) {
    writeln!(std::io::stderr(), "{what}: seeds {seeds:?}").expect("there is a standard error");
}
