//! The groups whose offsets a connection has set without being a member.

use std::hash::{BuildHasher as _, RandomState};

use parking_lot::Mutex;

/// Groups that a connection remembers.
const GROUPS_MAX: usize = 8;

/// The groups. Consumers without a group set offsets all the time, and so does an administrator who resets
/// them, with the same request: the audit log has the first one of each connection.
#[derive(Debug, Default)]
pub(crate) struct MovedGroups {
    /// Each connection has its own. Keys of the whole process would be drawn by the first run of the
    /// simulator, and the others would differ from it.
    keys: RandomState,
    known: Mutex<Vec<u64>>,
}

impl MovedGroups {
    /// Reports whether this is the first time.
    pub(crate) fn is_new(&self, group: &str) -> bool {
        let hash = self.keys.hash_one(group);
        let mut known = self.known.lock();
        if known.contains(&hash) {
            return false;
        }
        if known.len() >= GROUPS_MAX {
            known.remove(0);
        }
        known.push(hash);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_remembers_the_latest_groups() {
        let groups = MovedGroups::default();
        assert!(groups.is_new("g") && !groups.is_new("g"));
        for number in 0..GROUPS_MAX {
            assert!(groups.is_new(&number.to_string()));
        }
        assert!(groups.is_new("g"));
        assert!(!groups.is_new("3"));
    }
}
