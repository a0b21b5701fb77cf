//! What of a stream's durable consumers has to be saved.
//!
//! Changes are gathered, and saved in *rounds*: all that has changed up to a moment. What waits for a save
//! takes the number of the next round. A round has several writes if it is large.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tailrace_coordination::stream_consumers::{ConsumerWrite, ConsumersWrite};
use tailrace_jetstream::consumer::{SaveNeed, SaveVersion};

use super::member::{Member, Saving};

/// Time for which a change waits for company, in ns, unless somebody waits for it.
const COMPANY_NS: i64 = 250_000_000;

/// Bytes of a write, but at least one consumer.
const WRITE_BYTES: usize = 1 << 20;

/// Largest state of a consumer: it travels in one question between nodes, in base64. One that has as much as
/// its bounds allow takes less.
const STATE_BYTES_MAX: usize = 10 << 20;

/// What has changed.
#[derive(Default)]
pub(super) struct Unsaved {
    /// Consumers with the next round.
    changed: BTreeSet<Arc<str>>,
    deleted: BTreeSet<Arc<str>>,
    /// Consumers of the round that is being written.
    left: VecDeque<Arc<str>>,
    /// The number of that round, or of the last one.
    round: u64,
    /// When the next one begins.
    due_ns: Option<i64>,
    is_writing: bool,
}

impl Unsaved {
    /// Notes that a consumer has changed.
    pub(super) fn changed(&mut self, name: &Arc<str>, need: SaveNeed, now_ns: i64) {
        let due_ns = match need {
            SaveNeed::None => return,
            SaveNeed::Some => now_ns.saturating_add(COMPANY_NS),
            SaveNeed::Urgent => now_ns,
        };
        self.due_by(due_ns);
        if !self.changed.contains(name) {
            self.changed.insert(Arc::clone(name));
        }
    }

    /// Notes that a consumer is deleted.
    pub(super) fn deleted(&mut self, name: &Arc<str>) {
        self.changed.remove(name);
        // Another one of this name is written after the deletion.
        self.left.retain(|other| other != name);
        self.deleted.insert(Arc::clone(name));
        self.due_by(0);
    }

    /// Reports whether the next round deletes a consumer of this name.
    pub(super) fn is_deleting(&self, name: &str) -> bool {
        self.deleted.contains(name)
    }

    /// Reports whether the deletion of a consumer of this name may not be durable yet.
    pub(super) fn may_be_deleting(&self, name: &str) -> bool {
        self.is_writing || self.is_deleting(name)
    }

    /// The round with which all is saved that has changed so far. It begins at once.
    pub(super) fn next_round(&mut self) -> u64 {
        self.due_by(0);
        self.round + 1
    }

    fn due_by(&mut self, due_ns: i64) {
        self.due_ns = Some(self.due_ns.map_or(due_ns, |before_ns| before_ns.min(due_ns)));
    }

    /// When there is something to write. `None` while nothing has changed, and while something is written.
    pub(super) fn due_ns(&self) -> Option<i64> {
        match (self.is_writing, self.left.is_empty()) {
            (true, _) => None,
            (false, false) => Some(0),
            (false, true) => self.due_ns,
        }
    }

    /// Reports whether everything is saved.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_writing && self.left.is_empty() && self.due_ns.is_none()
    }
}

/// A consumer in a write.
struct Encoded {
    name: Arc<str>,
    /// Which one of this name.
    serial: u64,
    version: SaveVersion,
    /// The configuration that is in the write.
    config: Option<u64>,
}

/// A write.
pub(super) struct Gathered {
    pub(super) write: ConsumersWrite,
    encoded: Vec<Encoded>,
    round: u64,
    is_last: bool,
}

impl Gathered {
    /// Reports whether there is nothing to write. Somebody waits all the same.
    pub(super) fn is_empty(&self) -> bool {
        self.write.deleted.is_empty() && self.write.changed.is_empty()
    }
}

/// A state that cannot be saved.
#[derive(Debug, thiserror::Error)]
#[error("the state of consumer '{name}' has {bytes} bytes, at most {STATE_BYTES_MAX} can be saved")]
pub(super) struct TooLarge {
    name: Arc<str>,
    bytes: usize,
}

impl Unsaved {
    /// Returns what to write next. `None` if nothing is due.
    pub(super) fn gather(
        &mut self,
        members: &mut BTreeMap<Arc<str>, Member>,
        now_ns: i64,
    ) -> Result<Option<Gathered>, TooLarge> {
        if self.due_ns().is_none_or(|due_ns| due_ns > now_ns) {
            return Ok(None);
        }
        let mut write = ConsumersWrite::default();
        if self.left.is_empty() {
            self.round += 1;
            self.due_ns = None;
            self.left.extend(std::mem::take(&mut self.changed));
            let deleted = std::mem::take(&mut self.deleted);
            write.deleted.extend(deleted.iter().map(ToString::to_string));
        }
        let (mut encoded, mut bytes) = (Vec::new(), 0);
        while bytes < WRITE_BYTES
            && let Some(name) = self.left.pop_front()
        {
            let Some(member) = members.get_mut(&name).filter(|member| member.is_durable()) else { continue };
            let mut state = Vec::new();
            let Saving { version, whole, config } = member.encode(&mut state);
            if state.len() > STATE_BYTES_MAX {
                return Err(TooLarge { name, bytes: state.len() });
            }
            bytes += state.len() + whole.as_ref().map_or(0, |whole| whole.config.len());
            write.changed.push(ConsumerWrite { name: name.to_string(), whole, state: state.into() });
            encoded.push(Encoded { name, serial: member.serial, version, config });
        }
        self.is_writing = true;
        Ok(Some(Gathered { write, encoded, round: self.round, is_last: self.left.is_empty() }))
    }

    /// Takes in that a write is durable. Returns the round that is saved with it. Consumers that have waited
    /// for it become ready.
    pub(super) fn saved(
        &mut self,
        gathered: Gathered,
        members: &mut BTreeMap<Arc<str>, Member>,
        ready: &mut BTreeSet<Arc<str>>,
    ) -> Option<u64> {
        self.is_writing = false;
        for Encoded { name, serial, version, config } in gathered.encoded {
            let member = members.get_mut(&name).filter(|member| member.serial == serial);
            if member.is_some_and(|member| member.saved(version, config)) {
                ready.insert(name);
            }
        }
        gathered.is_last.then_some(gathered.round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_waits_for_waits_for_company_and_what_somebody_waits_for_does_not() {
        let (mut unsaved, name) = (Unsaved::default(), Arc::from("C"));
        unsaved.changed(&name, SaveNeed::None, 5);
        assert!(unsaved.is_empty());
        unsaved.changed(&name, SaveNeed::Some, 5);
        unsaved.changed(&name, SaveNeed::Some, 100);
        assert_eq!((unsaved.due_ns(), unsaved.is_empty()), (Some(5 + COMPANY_NS), false));
        unsaved.changed(&name, SaveNeed::Urgent, 7);
        assert_eq!(unsaved.due_ns(), Some(7));
        assert_eq!((unsaved.next_round(), unsaved.due_ns()), (1, Some(0)));
    }

    /// Another one of that name may be there already. It is written behind the deletion, and if it is not
    /// durable, the deletion is all.
    #[test]
    fn a_deletion_is_written_and_what_had_changed_before_it_is_not() {
        let (mut unsaved, name, mut members) = (Unsaved::default(), Arc::from("C"), BTreeMap::new());
        unsaved.left.push_back(Arc::clone(&name));
        unsaved.changed(&name, SaveNeed::Urgent, 5);
        unsaved.deleted(&name);
        assert!(unsaved.left.is_empty() && unsaved.changed.is_empty());
        assert!(unsaved.is_deleting("C") && unsaved.may_be_deleting("C") && !unsaved.may_be_deleting("D"));
        let gathered = unsaved.gather(&mut members, 5).unwrap().expect("something is to be written");
        assert_eq!((&*gathered.write.deleted, gathered.write.changed.len()), (&["C".to_owned()][..], 0));
        assert!(unsaved.may_be_deleting("C"), "while it is written");
        assert_eq!(unsaved.saved(gathered, &mut members, &mut BTreeSet::new()), Some(1));
        assert!(!unsaved.may_be_deleting("C"));
    }
}
