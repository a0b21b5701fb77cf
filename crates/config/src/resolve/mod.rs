//! Merges layers into effective values and refuses settings that contradict each other.

mod broker;
pub(crate) mod group;
mod topic;
mod values;
