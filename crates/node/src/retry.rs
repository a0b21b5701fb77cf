//! One retry rule for the whole node.
//!
//! Pauses double up to a maximum. An attempt starts before the deadline or not at all. There is no jitter:
//! each thing is retried by one task, not by a crowd.

use tailrace_env::time::{Duration, Instant, sleep_until};

/// Pauses between attempts: the first and the longest. Each is twice the previous one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pauses {
    first: Duration,
    longest: Duration,
}

impl Pauses {
    /// Pauses of equal length.
    pub(crate) const fn steady(pause: Duration) -> Self {
        Self { first: pause, longest: pause }
    }

    /// Pauses that start at `first` and double up to `longest`.
    pub(crate) const fn doubling(first: Duration, longest: Duration) -> Self {
        assert!(first.as_nanos() <= longest.as_nanos(), "the first pause is the shortest");
        Self { first, longest }
    }

    /// Retries until success.
    pub(crate) fn without_end(self) -> Retry {
        Retry { pause: self.first, longest: self.longest, deadline: None }
    }

    /// Retries until success or `deadline`.
    pub(crate) fn until(self, deadline: Instant) -> Retry {
        Retry { deadline: Some(deadline), ..self.without_end() }
    }
}

/// An operation that is being retried.
#[derive(Debug)]
pub(crate) struct Retry {
    /// The next pause.
    pause: Duration,
    longest: Duration,
    deadline: Option<Instant>,
}

impl Retry {
    /// Waits, after a failed attempt, until the next one is due. Returns false at once if the next attempt
    /// would not start before the deadline.
    pub(crate) async fn pause(&mut self) -> bool {
        let Some(next) = self.next_at(Instant::now()) else { return false };
        sleep_until(next).await;
        true
    }

    /// Reports whether the pauses have reached their maximum.
    pub(crate) fn is_longest(&self) -> bool {
        self.pause >= self.longest
    }

    /// Returns when to retry after an attempt that failed at `now`. `None` if that is past the deadline.
    fn next_at(&mut self, now: Instant) -> Option<Instant> {
        let next = now + self.pause;
        if self.deadline.is_some_and(|deadline| next >= deadline) {
            return None;
        }
        self.pause = (self.pause * 2).min(self.longest);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The pauses between attempts that take no time.
    fn pauses(retry: &mut Retry, began: Instant) -> Vec<u128> {
        let (mut now, mut pauses) = (began, Vec::new());
        while let Some(next) = retry.next_at(now).filter(|_| pauses.len() < 6) {
            pauses.push((next - now).as_millis());
            now = next;
        }
        pauses
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        tailrace_runtime::install();
        let began = Instant::now();
        assert_eq!(pauses(&mut Pauses::steady(MS * 50).without_end(), began), [50; 6]);
        let mut retry = Pauses::doubling(MS * 10, MS * 100).without_end();
        assert!(!retry.is_longest());
        assert_eq!(pauses(&mut retry, began), [10, 20, 40, 80, 100, 100]);
        assert!(retry.is_longest());
    }

    #[test]
    fn no_attempt_begins_at_the_deadline_or_after_it() {
        tailrace_runtime::install();
        let began = Instant::now();
        let doubling = Pauses::doubling(MS * 10, MS * 100);
        for (time_ms, expected) in [
            (0, &[][..]),
            (10, &[]),
            (11, &[10]),
            (30, &[10]),
            (31, &[10, 20]),
            (150, &[10, 20, 40]),
            (151, &[10, 20, 40, 80]),
        ] {
            assert_eq!(pauses(&mut doubling.until(began + MS * time_ms), began), expected, "{time_ms} ms");
        }
    }

    /// Nothing waits for an attempt that will not be made.
    #[tokio::test]
    async fn giving_up_takes_no_time() {
        tailrace_runtime::install();
        let began = Instant::now();
        assert!(!Pauses::steady(Duration::from_secs(60)).until(began + MS).pause().await);
        assert!(Pauses::steady(MS).until(began + Duration::from_secs(60)).pause().await);
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
