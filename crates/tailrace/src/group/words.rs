//! Words that several verbs use.

use tailrace_cli::text::units::plural;

/// `1 member`, `2 members`.
pub(super) fn members(count: usize) -> String {
    plural(count as u64, "member")
}
