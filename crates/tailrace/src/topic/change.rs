//! What all changes of topics have in common.

/// How long the server may take for a change, as a request says it.
pub(super) const CHANGE_TIMEOUT_MS: i32 = 30_000;

/// The setting that `--subjects` stands for, if it was given.
pub(super) fn captured(subjects: &[String]) -> Option<(String, String)> {
    (!subjects.is_empty()).then(|| ("tailrace.subjects".to_owned(), subjects.join(",")))
}
