//! Formats of a data folder (docs/format.md).

/// Newest format of a data folder that this build supports: that of a node in a cluster.
pub(super) const FORMAT: u32 = 2;

/// Format of a folder that has only ever belonged to a standalone server.
pub(super) const FORMAT_ALONE: u32 = 1;
