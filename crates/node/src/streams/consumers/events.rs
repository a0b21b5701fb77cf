//! Advisories of consumers, which wait to be sent to those who listen to them.
//!
//! They are sent as core messages. Topics do not capture them, and one for which nobody listens is forgotten.

use parking_lot::Mutex;
use tailrace_env::time::WallTime;
use tailrace_jetstream::consumer::{Advisory, Envelope, Names};

/// Advisories of a stream's consumers that may wait, about 500 bytes each. Further ones are dropped.
const EVENTS_MAX: usize = 1_024;

/// Letters of an id, as nats-server's have.
const ID_LETTERS: usize = 22;

/// Consumers of topics are in the account that nats-server calls so.
const ACCOUNT: &str = "$G";

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What is to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) subject: String,
    pub(super) body: String,
}

/// What waits to be sent.
#[derive(Default)]
pub(super) struct Events(Mutex<Vec<Event>>);

impl Events {
    /// Adds one to those that wait.
    pub(super) fn add(&self, subject: String, names: &Names, advisory: &Advisory) {
        let mut waiting = self.0.lock();
        if waiting.len() >= EVENTS_MAX {
            return;
        }
        let now_ns = i64::try_from(WallTime::now().after_epoch().as_nanos()).unwrap_or(i64::MAX);
        let envelope = Envelope { id: &random_word(ID_LETTERS), now_ns, domain: None, account: ACCOUNT };
        waiting.push(Event { body: advisory.json(names, &envelope), subject });
    }

    /// Takes all of them.
    pub(super) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// A random word of letters and digits.
pub(super) fn random_word(letters: usize) -> String {
    let letter = |_| char::from(DIGITS[usize::try_from(tailrace_env::random::u64() % 62).unwrap_or(0)]);
    (0..letters).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_a_bounded_number_waits_and_each_has_an_id_of_its_own() {
        tailrace_runtime::install();
        let (events, names) = (Events::default(), Names { stream: "S".into(), consumer: "C".into() });
        let advisory = Advisory::MaxDeliver { stream_seq: 1, deliveries: 2 };
        for _ in 0..EVENTS_MAX + 1 {
            events.add(advisory.subject(&names), &names, &advisory);
        }
        let taken = events.take();
        assert_eq!((taken.len(), events.is_empty()), (EVENTS_MAX, true));
        assert_eq!(taken[0].subject, "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C");
        assert_ne!(taken[0].body, taken[1].body);
    }
}
