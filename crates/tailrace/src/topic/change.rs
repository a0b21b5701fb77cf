//! Code that all changes of topics share.

/// How long a request gives the server for a change.
pub(super) const CHANGE_TIMEOUT_MS: i32 = 30_000;

/// The setting that `--subjects` sets, if it was given.
pub(super) fn captured(subjects: &[String]) -> Option<(String, String)> {
    (!subjects.is_empty()).then(|| ("tailrace.subjects".to_owned(), subjects.join(",")))
}
