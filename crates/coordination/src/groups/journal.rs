//! The records that decisions about a group write.

use std::sync::Arc;

use crate::coordinator::CoordinatorRecord;

/// Collects the records of changes. During replay it collects none.
#[derive(Debug)]
pub(crate) struct Journal<'a> {
    group: &'a Arc<str>,
    records: Option<Vec<CoordinatorRecord>>,
}

impl<'a> Journal<'a> {
    /// Makes a journal that collects records.
    pub(crate) fn new(group: &'a Arc<str>) -> Self {
        Self { group, records: Some(Vec::new()) }
    }

    /// Makes a journal for replay, which collects none.
    pub(crate) fn silent(group: &'a Arc<str>) -> Self {
        Self { group, records: None }
    }

    /// Returns the collected records.
    pub(crate) fn into_records(self) -> Vec<CoordinatorRecord> {
        self.records.unwrap_or_default()
    }

    /// Returns the group, if records are collected.
    pub(crate) fn group(&self) -> Option<&str> {
        self.records.as_ref().map(|_| &**self.group)
    }

    /// Takes the collected records.
    pub(crate) fn take(&mut self) -> Vec<CoordinatorRecord> {
        self.records.take().unwrap_or_default()
    }

    pub(crate) fn push(&mut self, record: CoordinatorRecord) {
        if let Some(records) = &mut self.records {
            records.push(record);
        }
    }
}
