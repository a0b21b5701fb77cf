//! Results in files: HdrHistogram's plotting format, CSV and JSON. Interval logs are the recorder's business.
//!
//! Nothing here draws; plots and HTML are not there yet.

mod csv;
mod hgrm;
mod machine;
mod summary;

pub use csv::{percentiles_csv, timeline_header, timeline_row};
pub use hgrm::{HgrmRow, read_hgrm, write_hgrm};
pub use machine::Machine;
pub use summary::{Described, Summary};
