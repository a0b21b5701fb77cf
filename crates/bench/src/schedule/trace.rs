//! Recorded traces: due times from a file.

use crate::error::ScheduleError;

pub(super) fn check(due_times_ns: &[u64]) -> Result<(), ScheduleError> {
    if due_times_ns.is_empty() {
        return Err(ScheduleError::TraceEmpty);
    }
    match due_times_ns.windows(2).position(|pair| pair[1] < pair[0]) {
        None => Ok(()),
        Some(at) => Err(ScheduleError::TraceFalls {
            line: at + 2,
            due_ns: due_times_ns[at + 1],
            previous_ns: due_times_ns[at],
        }),
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<u64>, ScheduleError> {
    let mut due_times = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let due = line.parse().map_err(|_| ScheduleError::TraceLine {
            line: number + 1,
            text: line.chars().take(40).collect(),
        })?;
        if let Some(previous_ns) = due_times.last().copied().filter(|previous| due < *previous) {
            return Err(ScheduleError::TraceFalls { line: number + 1, due_ns: due, previous_ns });
        }
        due_times.push(due);
    }
    Ok(due_times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;

    #[test]
    fn reads_numbers_and_comments() {
        let schedule = Schedule::parse_trace("# ns\n0\n5 # five\n\n5\n900\n").unwrap();
        assert_eq!(schedule.due_times(0, 1).collect::<Vec<_>>(), [0, 5, 5, 900]);
        assert_eq!(schedule.due_times(1, 3).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn wrong_lines_are_named() {
        assert_eq!(Schedule::parse_trace(""), Err(ScheduleError::TraceEmpty));
        let falls = ScheduleError::TraceFalls { line: 3, due_ns: 4, previous_ns: 5 };
        assert_eq!(Schedule::parse_trace("#\n5\n4\n"), Err(falls));
        assert!(matches!(Schedule::parse_trace("1.5"), Err(ScheduleError::TraceLine { line: 1, .. })));
    }
}
