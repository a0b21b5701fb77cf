//! What the processor did with its position, as a history that other projects' checkers read: adya, a port of
//! Jepsen's Elle.
//!
//! The position is a register. A transaction reads it (where its records start) and writes it (where they
//! end). If the history is strictly serializable, each record was copied once.

use std::fmt::Write as _;

/// One transaction, timed by a clock that counts events.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Copied {
    began: u64,
    /// `None` if its processor does not know whether it was committed.
    committed: Option<u64>,
    from: i64,
    next: i64,
}

/// All transactions of the processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    clock: u64,
    all: Vec<Copied>,
}

impl Copies {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Records the start of a transaction that copies the records between two offsets.
    pub(super) fn begin(&mut self, from: i64, next: i64) {
        let began = self.tick();
        self.all.push(Copied { began, committed: None, from, next });
    }

    /// Records that the transaction was committed.
    pub(super) fn committed(&mut self) {
        let now = self.tick();
        self.all.last_mut().expect("the transaction has started").committed = Some(now);
    }

    /// Records that the processor starts again at the position of its group. If the last transaction was not
    /// committed, it is left out, because another one writes the same.
    pub(super) fn resume(&mut self, position: i64) {
        if self.all.last().is_some_and(|last| last.committed.is_none() && last.next > position) {
            self.all.pop();
        }
    }

    /// Returns the history in the format of elle-cli, one operation per line.
    pub fn lines(&self) -> String {
        let mut operations = Vec::new();
        let mut process = 0;
        for Copied { began, committed, from, next } in &self.all {
            let read = if *from == 0 { "null".to_owned() } else { from.to_string() };
            let line = |kind: &str, read: &str| {
                format!(r#"{{"type":"{kind}","process":{process},"value":[["r",0,{read}],["w",0,{next}]]}}"#)
            };
            operations.push((*began, line("invoke", "null")));
            match committed {
                Some(at) => operations.push((*at, line("ok", &read))),
                None => {
                    operations.push((u64::MAX, line("info", &read)));
                    // A process that does not know the outcome sends nothing more.
                    process += 1;
                }
            }
        }
        operations.sort();
        operations.iter().fold(String::new(), |mut text, (_, line)| {
            writeln!(text, "{line}").expect("writing to a string cannot fail");
            text
        })
    }
}

/// See [`crate::checks`].
pub(crate) mod checks {
    use super::Copies;

    /// What nobody knows of counts if it is there.
    pub fn what_nobody_knows_of_counts_if_it_is_there() {
        let mut copies = Copies::default();
        copies.begin(0, 4);
        copies.committed();
        copies.begin(4, 6);
        copies.resume(4);
        copies.begin(4, 7);
        copies.resume(7);
        copies.begin(7, 9);
        copies.committed();
        let expected = r#"{"type":"invoke","process":0,"value":[["r",0,null],["w",0,4]]}
{"type":"ok","process":0,"value":[["r",0,null],["w",0,4]]}
{"type":"invoke","process":0,"value":[["r",0,null],["w",0,7]]}
{"type":"invoke","process":1,"value":[["r",0,null],["w",0,9]]}
{"type":"ok","process":1,"value":[["r",0,7],["w",0,9]]}
{"type":"info","process":0,"value":[["r",0,4],["w",0,7]]}
"#;
        assert_eq!(copies.lines(), expected);
    }
}
