//! Parsing and formatting of small texts. Nothing here does I/O.

pub mod escape;
pub mod json;
pub mod names;
pub mod pairs;
pub mod table;
pub mod time;
pub mod units;
