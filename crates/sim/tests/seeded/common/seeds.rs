//! Chooses the seeds: from the environment, or some fixed ones and some of the day.

use std::io::Write;
use std::ops::Range;
use std::time::SystemTime;

/// The first seed of days.
const DAYS: u64 = 1_000_000;

/// Reads a number from the environment.
pub(crate) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// Returns the chosen seeds: `TAILRACE_SEED=N` chooses seed N, `TAILRACE_SEEDS=N` the first N. `None` if
/// neither is set.
pub(crate) fn chosen() -> Option<Range<u64>> {
    let one = number("TAILRACE_SEED").map(|seed| seed..seed + 1);
    one.or_else(|| number("TAILRACE_SEEDS").map(|seeds| 0..seeds))
}

/// Returns this many seeds that no other day has.
pub(crate) fn of_the_day(count: u64) -> Range<u64> {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let today = since_1970.expect("the clock is past 1970").as_secs() / 86_400;
    let first = DAYS + today * count;
    first..first + count
}

/// Prints the seeds to standard error, even if the output of passing tests is hidden.
pub(crate) fn tell(what: &str, seeds: &[u64]) {
    writeln!(std::io::stderr(), "{what}: seeds {seeds:?}").expect("standard error can be written");
}
