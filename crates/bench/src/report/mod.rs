//! Results in files: HdrHistogram's plotting format, CSV and JSON. Interval logs are the recorder's business.
//!
//! Charts are SVG, and PNG where a document wants it. Nothing here reads folders.

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
mod hgrm;
mod html;
mod known;
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

pub use chart::{Chart, Horizontal, Note, latency_points};
pub use charts::charts;
pub use csv::{TimelineRow, percentiles_csv, read_timeline, timeline_header, timeline_row};
pub use described::{Clocks, Described, Told, Untold};
pub use hgrm::{HgrmRow, read_hgrm, write_hgrm};
pub use html::html;
pub use known::milliseconds;
pub use lines::{Line, Stroke};
pub use machine::Machine;
pub use moment::rfc3339;
pub use origin::Origin;
pub use page::index;
pub use resources::{ResourceSample, Resources};
pub use section::{Round, Section, Series};
pub use summary::Summary;

/// Text as HTML and SVG can hold it.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
