//! What decisions about a group write.

use std::sync::Arc;

use crate::coordinator::CoordinatorRecord;

/// Records that come of changes, or none while they are replayed.
#[derive(Debug)]
pub(crate) struct Journal<'a> {
    group: &'a Arc<str>,
    records: Option<Vec<CoordinatorRecord>>,
}

impl<'a> Journal<'a> {
    /// Takes records down.
    pub(crate) fn new(group: &'a Arc<str>) -> Self {
        Self { group, records: Some(Vec::new()) }
    }

    /// What happens has happened before.
    pub(crate) fn silent(group: &'a Arc<str>) -> Self {
        Self { group, records: None }
    }

    /// What was taken down.
    pub(crate) fn into_records(self) -> Vec<CoordinatorRecord> {
        self.records.unwrap_or_default()
    }

    /// The group, if records are taken down.
    pub(crate) fn group(&self) -> Option<&str> {
        self.records.as_ref().map(|_| &**self.group)
    }

    /// Takes out what was taken down.
    pub(crate) fn take(&mut self) -> Vec<CoordinatorRecord> {
        self.records.take().unwrap_or_default()
    }

    pub(crate) fn push(&mut self, record: CoordinatorRecord) {
        if let Some(records) = &mut self.records {
            records.push(record);
        }
    }
}
