//! Results in files: HdrHistogram's plotting format, CSV and JSON. Interval logs belong to the recorder.
//!
//! Charts are SVG, or PNG for documents that need it. Nothing here reads folders.

mod axis;
mod chart;
#[cfg(test)]
mod chart_tests;
mod charts;
mod course;
mod csv;
mod described;
mod difference;
mod drawing;
mod durability;
mod facts;
mod figures;
mod hgrm;
mod html;
mod labels;
mod letters;
mod lines;
mod machine;
mod moment;
mod origin;
mod page;
mod percentile_table;
mod png;
mod resource_charts;
mod resources;
mod run_table;
mod section;
#[cfg(test)]
mod section_tests;
mod sentence;
mod summary;
mod to_repeat;

pub(crate) use chart::{Chart, Horizontal, Note, latency_points};
pub(crate) use charts::charts;
pub(crate) use csv::{TimelineRow, percentiles_csv, read_timeline, timeline_header, timeline_row};
pub(crate) use described::{Clocks, Told};
pub use described::{Described, Untold};
pub(crate) use figures::milliseconds;
pub(crate) use hgrm::write_hgrm;
pub use hgrm::{HgrmRow, read_hgrm};
pub(crate) use html::html;
pub(crate) use lines::{Line, Stroke};
pub use machine::Machine;
pub(crate) use moment::rfc3339;
pub(crate) use origin::Origin;
pub(crate) use page::index;
pub use resources::ResourceSample;
pub(crate) use resources::Resources;
pub(crate) use section::{Round, Section, Series};
pub(crate) use summary::Summary;

/// Escapes text for HTML and SVG.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
