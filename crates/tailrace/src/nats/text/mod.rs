//! Small texts of the NATS verbs: subjects, headers, templates. No I/O.

pub(super) mod headers;
pub(super) mod subject;
pub(super) mod template;
