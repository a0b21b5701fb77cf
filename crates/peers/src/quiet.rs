//! Limits log lines that a stranger could cause without end to one per interval and reason.

use std::collections::HashMap;
use tailrace_env::time::{Duration, Instant};

use parking_lot::Mutex;

/// Interval between two lines with one reason.
const INTERVAL: Duration = Duration::from_secs(5);

/// When each reason was last logged, and how many lines were left out since. Reasons are constants of the
/// program, so there are few.
#[derive(Default)]
pub(super) struct Quiet(Mutex<HashMap<&'static str, (Instant, u64)>>);

impl Quiet {
    /// Returns how many lines with this reason were left out before this one. `None` if this one is left out,
    /// too.
    pub(super) fn may_log(&self, reason: &'static str) -> Option<u64> {
        let mut lines = self.0.lock();
        match lines.get_mut(reason) {
            Some((last, left_out)) if last.elapsed() < INTERVAL => {
                *left_out += 1;
                None
            }
            _ => Some(lines.insert(reason, (Instant::now(), 0)).map_or(0, |(_, left_out)| left_out)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_a_while_for_each_reason() {
        tailrace_runtime::install();
        let quiet = Quiet::default();
        assert_eq!(quiet.may_log("a"), Some(0));
        assert_eq!(quiet.may_log("a"), None);
        assert_eq!(quiet.may_log("a"), None);
        assert_eq!(quiet.may_log("b"), Some(0));
        let before = Instant::now().checked_sub(INTERVAL).unwrap();
        quiet.0.lock().get_mut("a").unwrap().0 = before;
        assert_eq!(quiet.may_log("a"), Some(2));
    }
}
