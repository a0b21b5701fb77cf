//! Which part of a list an answer is.

use serde::Serialize;

use crate::limits::{LIST_PAGE, NAMES_PAGE};

/// Which page of how many entries an answer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Page {
    /// All entries.
    pub total: usize,
    /// Those before the page.
    pub offset: usize,
    /// The most of a page.
    pub limit: usize,
}

impl Page {
    fn new(total: usize, offset: i64, limit: usize) -> Self {
        Self { total, offset: usize::try_from(offset).unwrap_or(usize::MAX).min(total), limit }
    }

    /// The page of names that begins there. An offset beyond the end is taken for the end.
    #[must_use]
    pub fn of_names(total: usize, offset: i64) -> Self {
        Self::new(total, offset, NAMES_PAGE)
    }

    /// The page of a list that begins there.
    #[must_use]
    pub fn of_list(total: usize, offset: i64) -> Self {
        Self::new(total, offset, LIST_PAGE)
    }

    /// The indices of its entries.
    #[must_use]
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset.saturating_add(self.limit).min(self.total)
    }
}
