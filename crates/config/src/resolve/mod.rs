//! What holds, where several places may set it, and what does not fit together.

mod broker;
pub(crate) mod group;
mod topic;
mod values;
