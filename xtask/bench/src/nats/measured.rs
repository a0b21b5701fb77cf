//! Runs the measuring programs.

use std::path::Path;

use crate::lab::{Lab, Meter, RUN_LIMIT, Slot, failure};
use crate::proc;
use crate::process::Tool;
use crate::sample::Figures;
use crate::servers::Endpoint;

/// A measuring program, its arguments, and the parser for the last line that it prints.
pub(crate) struct Program<'a> {
    pub(crate) path: &'a Path,
    pub(crate) arguments: &'a [String],
    pub(crate) parse: fn(&str) -> Option<Figures>,
}

/// Runs a measuring program against a server and keeps its figures and its cost. The server's CPU time is
/// divided by the number of `delivered` messages.
pub(super) fn measured(
    lab: &mut Lab,
    slot: Slot,
    endpoint: &Endpoint,
    program: &Program<'_>,
    delivered: Option<u64>,
) -> Result<Figures, String> {
    let Outcome { mut figures, failed, line } = outcome(lab, endpoint, program)?;
    if let (Some(delivered), Some(cpu)) = (delivered, figures.get("server_cpu_s").copied()) {
        figures.insert("server_cpu_s_per_m_delivered".to_owned(), cpu / (delivered as f64 / 1e6));
    }
    lab.keep(slot, endpoint.system, figures.clone(), failed, line)?;
    Ok(figures)
}

/// The figures of a run of a measuring program, including its cost to the server.
pub(crate) struct Outcome {
    pub(crate) figures: Figures,
    /// The reason why the figures do not count. `None` if they do.
    pub(crate) failed: Option<String>,
    /// The last line that the program printed.
    pub(crate) line: String,
}

/// Runs a measuring program against a server.
pub(crate) fn outcome(lab: &Lab, endpoint: &Endpoint, program: &Program<'_>) -> Result<Outcome, String> {
    proc::reset_peak(endpoint.pid);
    let meter = Meter::start(endpoint.pid);
    let finished = Tool::start(&lab.scratch, "load", program.path, program.arguments)?.finish(RUN_LIMIT)?;
    let mut figures = meter.stop();
    let line = finished.stdout.lines().last().unwrap_or_default().to_owned();
    let parsed = (program.parse)(&line);
    let failed = failure(&finished, parsed.is_some());
    figures.append(&mut parsed.unwrap_or_default());
    if let Some(peak) = proc::memory_mib(endpoint.pid, "VmHWM") {
        figures.insert("peak_rss_mib".to_owned(), peak);
    }
    Ok(Outcome { figures, failed, line })
}
