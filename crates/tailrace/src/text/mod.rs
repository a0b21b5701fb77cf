//! Small texts: what people type and read. Nothing here does I/O.

pub(crate) mod base64;
pub(crate) mod escape;
pub(crate) mod json;
pub(crate) mod names;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod units;
