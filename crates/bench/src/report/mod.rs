//! Results in files: HdrHistogram's plotting format, CSV and JSON. Interval logs are the recorder's business.
//!
//! Charts are SVG, and PNG where a document wants it. Nothing here reads folders.

mod chart;
mod csv;
mod described;
mod drawing;
mod hgrm;
mod html;
mod machine;
mod origin;
mod png;
mod resources;
mod summary;

pub use chart::{Chart, Horizontal, Line, Stroke, latency_points};
pub use csv::{percentiles_csv, timeline_header, timeline_row};
pub use described::{Described, Told, Untold};
pub use hgrm::{HgrmRow, read_hgrm, write_hgrm};
pub use html::{Section, Series, charts, html};
pub use machine::Machine;
pub use origin::Origin;
pub use resources::{ResourceSample, Resources};
pub use summary::Summary;

/// Text as HTML and SVG can hold it.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
