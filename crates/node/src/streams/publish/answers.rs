//! The answers of a leader that may be asked for again, because the first one was lost.

use std::collections::VecDeque;
use std::sync::Arc;

use tailrace_types::ProducerId;

use super::types::{Published, Sender};

/// Senders whose last answers are kept. Each node of a cluster is one, and a new one after a failure.
const SENDERS_MAX: usize = 64;

/// What is known of a request that has come.
#[derive(Debug, PartialEq)]
pub(super) enum Known {
    /// It is new.
    Not,
    /// It was answered like this.
    Answered(Arc<Vec<Published>>, i32),
    /// Its sender has sent another one since, so nobody waits for this.
    Late,
}

/// The last answer to each sender. The oldest gives way.
#[derive(Debug, Default)]
pub(super) struct Answers(VecDeque<Answer>);

#[derive(Debug)]
struct Answer {
    producer: ProducerId,
    request: u64,
    published: Arc<Vec<Published>>,
    stored: i32,
}

impl Answers {
    pub(super) fn known(&self, sender: &Sender) -> Known {
        match self.0.iter().find(|answer| answer.producer == sender.producer) {
            Some(answer) if answer.request == sender.request => {
                Known::Answered(Arc::clone(&answer.published), answer.stored)
            }
            Some(answer) if answer.request > sender.request => Known::Late,
            _ => Known::Not,
        }
    }

    pub(super) fn keep(&mut self, sender: &Sender, published: &[Published], stored: i32) {
        let Sender { producer, request, .. } = *sender;
        self.0.retain(|answer| answer.producer != producer);
        if self.0.len() == SENDERS_MAX {
            self.0.pop_front();
        }
        let published = Arc::new(published.to_vec());
        self.0.push_back(Answer { producer, request, published, stored });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(producer: i64, request: u64) -> Sender {
        Sender { producer: ProducerId(producer), sequence: 0, request, epoch: None }
    }

    #[test]
    fn the_last_answer_is_given_again_and_an_older_request_is_late() {
        let mut answers = Answers::default();
        assert_eq!(answers.known(&sender(1, 5)), Known::Not);
        answers.keep(&sender(1, 5), &[Published::Duplicate(3)], 0);
        let known = Known::Answered(Arc::new(vec![Published::Duplicate(3)]), 0);
        assert_eq!(answers.known(&sender(1, 5)), known);
        assert_eq!(answers.known(&sender(1, 4)), Known::Late);
        assert_eq!(answers.known(&sender(1, 6)), Known::Not);
        assert_eq!(answers.known(&sender(2, 5)), Known::Not);
        for producer in 10..10 + SENDERS_MAX as i64 {
            answers.keep(&sender(producer, 1), &[], 0);
        }
        assert_eq!((answers.0.len(), answers.known(&sender(1, 5))), (SENDERS_MAX, Known::Not));
    }
}
