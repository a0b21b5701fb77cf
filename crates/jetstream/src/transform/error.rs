//! The error of a transform.

/// What is wrong with a transform. The texts are nats-server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformError(pub(crate) String);

impl std::fmt::Display for TransformError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TransformError {}
