//! When rounds start.

use tailrace_env::time::{Duration, Instant};

/// The state that decides about the next round.
pub(super) struct Clock {
    /// The start of the last round, or of the wait for the first.
    pub(super) since: Instant,
    pub(super) any_yet: bool,
    /// The last request.
    pub(super) request: String,
    /// A scheduled round was interrupted for a requested one, and has to be repeated after it.
    pub(super) interrupted: bool,
}

/// A round that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) request: String,
    /// The only topic to read, if any.
    pub(super) topic: Option<String>,
    /// Replaces the configured rate for this round.
    pub(super) bytes_per_second: Option<u64>,
}

impl Due {
    /// Parses `WORD[@BYTES PER SECOND][:TOPIC]`, where the word is one that was not used before.
    fn requested(request: &str) -> Self {
        let (word, topic) = match request.split_once(':') {
            Some((word, topic)) => (word, Some(topic.to_owned())),
            None => (request, None),
        };
        let bytes_per_second = word.split_once('@').and_then(|(_, rate)| rate.parse().ok());
        Self { request: request.to_owned(), topic, bytes_per_second }
    }
}

impl Clock {
    pub(super) fn due(
        &mut self,
        interval_ms: i64,
        bytes_per_second: u64,
        request: &str,
        now: Instant,
    ) -> Option<Due> {
        if request != self.request {
            self.request = request.to_owned();
            if !request.is_empty() {
                return Some(Due::requested(request));
            }
        }
        let interval = Duration::from_millis(u64::try_from(interval_ms).ok().filter(|ms| *ms > 0)?);
        let wait = if self.any_yet { interval } else { interval / 10 };
        let is_time = self.interrupted || now.duration_since(self.since) >= wait;
        if bytes_per_second == 0 || !is_time {
            return None;
        }
        (self.since, self.any_yet, self.interrupted) = (now, true, false);
        Some(Due { request: String::new(), topic: None, bytes_per_second: None })
    }

    /// Records how a round ended. A requested round that read everything also counts for the one that was
    /// interrupted.
    pub(super) fn ended(&mut self, due: &Due, is_whole: bool) {
        match due.request.is_empty() {
            true => self.interrupted = !is_whole,
            false => self.interrupted &= !(is_whole && due.topic.is_none()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    fn clock() -> Clock {
        Clock { since: Instant::now(), any_yet: false, request: "before".to_owned(), interrupted: false }
    }

    #[test]
    fn rounds_come_when_it_is_time_and_not_when_they_are_off() {
        let mut clock = clock();
        let day = Duration::from_secs(86_400);
        let begin = clock.since;
        let mut at = |tenths: u32, interval, rate| {
            clock.due(interval, rate, "before", begin + day * tenths / 10).is_some()
        };
        assert!(!at(0, DAY_MS, 1));
        assert!(!at(100, 0, 1) && !at(100, -1, 1) && !at(100, DAY_MS, 0));
        assert!(at(1, DAY_MS, 1), "the first round starts after a tenth");
        assert!(!at(10, DAY_MS, 1));
        assert!(at(11, DAY_MS, 1));
    }

    #[test]
    fn a_round_that_made_way_for_a_request_is_done_after_it() {
        let mut clock = clock();
        let now = clock.since + Duration::from_secs(86_400);
        let own = clock.due(DAY_MS, 1, "before", now).expect("it is time");
        clock.ended(&own, false);
        let asked = clock.due(DAY_MS, 1, "1:orders", now).expect("it was asked for");
        assert_eq!(asked.topic.as_deref(), Some("orders"));
        clock.ended(&asked, true);
        assert_eq!(
            clock.due(DAY_MS, 1, "1:orders", now),
            Some(own),
            "nothing is known about the other topics"
        );
        clock.ended(&Due::requested(""), false);
        let asked = clock.due(DAY_MS, 1, "2", now).expect("it was asked for");
        clock.ended(&asked, true);
        assert_eq!(clock.due(DAY_MS, 1, "2", now), None, "everything was read");
    }

    #[test]
    fn a_request_is_carried_out_once_also_when_rounds_are_off() {
        let (mut clock, now) = (clock(), Instant::now());
        let mut due = |request| clock.due(0, 0, request, now);
        assert_eq!(due("before"), None);
        let asked = |request: &str, topic: Option<&str>, bytes_per_second| {
            let topic = topic.map(str::to_owned);
            Some(Due { request: request.to_owned(), topic, bytes_per_second })
        };
        assert_eq!(due("1"), asked("1", None, None));
        assert_eq!(due("1"), None);
        assert_eq!(due("2:orders"), asked("2:orders", Some("orders"), None));
        assert_eq!(due("3@64"), asked("3@64", None, Some(64)));
        assert_eq!(due("4@0:orders"), asked("4@0:orders", Some("orders"), Some(0)));
        // An invalid rate sets none.
        assert_eq!(due("5@fast"), asked("5@fast", None, None));
        assert_eq!(due(""), None);
    }
}
