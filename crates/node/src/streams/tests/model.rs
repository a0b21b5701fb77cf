//! Random appends, transactions, deletions and restarts, against a plain list.

use std::collections::BTreeMap;

use super::*;
use crate::partitions::advance_log_start;
use tailrace_types::Offset;

const SUBJECTS: [&str; 5] = ["a.1", "a.2", "b.1", "b.2.c", "d"];

#[derive(Default)]
struct Model {
    /// Committed messages: subject and payload.
    messages: BTreeMap<u64, (&'static str, Vec<u8>)>,
    per_subject: usize,
    /// The next offset.
    end: u64,
    /// No message is below this sequence.
    first: u64,
}

impl Model {
    fn append(&mut self, sent: &[(&'static str, Vec<u8>)], is_seen: bool) {
        for (subject, payload) in sent {
            self.end += 1;
            if is_seen {
                self.messages.insert(self.end, (subject, payload.clone()));
            }
        }
        for subject in SUBJECTS {
            let of = self.messages.iter().filter(|(_, (other, _))| *other == subject);
            let of: Vec<u64> = of.map(|(sequence, _)| *sequence).collect();
            for sequence in &of[..of.len().saturating_sub(self.per_subject)] {
                self.messages.remove(sequence);
            }
        }
    }
}

impl Model {
    fn purge(&mut self, upto: u64, keep: u64) -> u64 {
        let upto = upto.min(self.end);
        let reached: Vec<u64> = self.messages.range(..=upto).map(|(sequence, _)| *sequence).collect();
        let gone = (reached.len() as u64).saturating_sub(keep);
        if keep == 0 || gone > 0 {
            let first = reached.get(gone as usize).copied().unwrap_or(upto + 1);
            self.first = self.first.max(first);
            self.messages.retain(|sequence, _| *sequence >= first);
        }
        gone
    }
}

async fn agree(rig: &Rig, model: &Model) {
    let state = rig.state().await;
    assert_eq!((state.messages, state.last_seq), (model.messages.len() as u64, model.end));
    let first = model.messages.keys().next().copied();
    assert_eq!(state.first_seq, if model.end == 0 { 0 } else { first.unwrap_or(model.end + 1) });
    for filter in ["", "a.*", "b.>", "d", "nothing"] {
        let matches = |subject: &str| match filter {
            "" => true,
            "a.*" => subject.starts_with("a."),
            "b.>" => subject.starts_with("b."),
            other => other == subject,
        };
        let expected: Vec<_> = model.messages.iter().filter(|(_, (subject, _))| matches(subject)).collect();
        let (mut found, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let bounds = ReadBounds { messages: 7, bytes: u64::MAX };
            match messages(rig.node(), Caller::internal(), &rig.topic(), next(filter, at), bounds).await {
                Ok(page) => {
                    found.extend(page.messages);
                    from = page.next;
                    assert_eq!(page.pending as usize + found.len(), expected.len());
                }
                Err(failure) => {
                    assert_eq!(failure, StreamFailure::NoMessage);
                    break;
                }
            }
        }
        assert_eq!(found.len(), expected.len(), "{filter}");
        for (found, (sequence, (subject, payload))) in found.iter().zip(&expected) {
            assert_eq!((found.sequence, &*found.subject), (**sequence, subject.as_bytes()));
            assert_eq!(&*found.payload, &**payload);
        }
        let last = rig.read(last(filter)).await.ok().map(|found| found.messages[0].sequence);
        assert_eq!(last, expected.last().map(|(sequence, _)| **sequence), "{filter}");
    }
}

async fn play(seed: u64, per_subject: usize) {
    let mut dice = Dice(seed);
    let mut rig = Rig::start(&[]).await;
    let limit = i64::try_from(per_subject).unwrap();
    create(rig.node(), Some(&StreamConfig { max_msgs_per_subject: limit, ..config() })).await;
    let mut model = Model { per_subject, ..Model::default() };
    for step in 0..60 {
        let topic = rig.topic();
        let handle = topic.here(0).unwrap();
        match dice.below(10) {
            0 if step % 3 == 0 => rig = rig.again().await,
            1 => {
                let to = dice.below(model.end + 1).max(model.first.saturating_sub(1));
                let to_offset = Offset(i64::try_from(to).unwrap());
                advance_log_start(rig.node(), Caller::internal(), handle, to_offset).await.unwrap();
                model.first = to + 1;
                model.messages.retain(|sequence, _| *sequence > to);
            }
            9 => {
                let (upto, keep) = (dice.below(model.end + 2), dice.below(4));
                let terms = PurgeTerms { upto, keep };
                let purged = purge(rig.node(), Caller::internal(), &topic, terms).await.unwrap();
                assert_eq!(purged, model.purge(upto, keep), "up to {upto}, keep {keep}");
            }
            choice => {
                let count = 1 + dice.below(12);
                let sent: Vec<_> = (0..count)
                    .map(|number| {
                        let subject = SUBJECTS[dice.below(5) as usize];
                        (subject, format!("{step}.{number}").into_bytes())
                    })
                    .collect();
                let batch: Vec<Sent<'_>> =
                    sent.iter().map(|(subject, payload)| (*subject, &**payload, None)).collect();
                match choice {
                    2..=4 => {
                        let is_committed = choice == 2;
                        send(rig.node(), handle, Some(9), &batch).await;
                        end(rig.node(), handle, 9, is_committed).await;
                        model.append(&sent, is_committed);
                        // The marker.
                        model.end += 1;
                    }
                    _ => {
                        send(rig.node(), handle, None, &batch).await;
                        model.append(&sent, true);
                    }
                }
            }
        }
        if dice.below(3) == 0 {
            agree(&rig, &model).await;
        }
    }
    agree(&rig, &model).await;
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_agrees_with_a_plain_list() {
    for (seed, per_subject) in [(1, 1_000), (2, 3), (3, 1), (77, 2), (991, 1_000)] {
        println!("seed {seed}, {per_subject} messages of a subject");
        play(seed, per_subject).await;
    }
}
