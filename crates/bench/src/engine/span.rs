//! The times of a run: its start, the start of its measured part, and its end.

use super::options::LoadOptions;

/// Points of time on the generator's clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When the first message is due.
    pub begin_ns: u64,
    /// Messages due from here on are recorded.
    pub measured_ns: u64,
    /// No message is due from here on.
    pub end_ns: u64,
    /// The wait for answers ends here.
    pub drained_ns: u64,
}

impl Span {
    pub(crate) fn new(begin_ns: u64, options: &LoadOptions) -> Self {
        let measured_ns = begin_ns.saturating_add(options.warm_up_ns);
        let end_ns = measured_ns.saturating_add(options.duration_ns);
        Self { begin_ns, measured_ns, end_ns, drained_ns: end_ns.saturating_add(options.drain_ns) }
    }

    pub(super) fn measures(&self, due_ns: u64) -> bool {
        (self.measured_ns..self.end_ns).contains(&due_ns)
    }
}
