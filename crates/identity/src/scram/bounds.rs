//! Bounds on the messages of SCRAM.

/// Maximum length of a message, in bytes. The longest legal one has 1,811: a client's first message with a
/// name of 255 equals signs, twice.
pub(crate) const MESSAGE_BYTES_MAX: usize = 2_048;

/// Maximum length of a nonce, in bytes. That of a client has half of it at most. Clients use 20 to 40.
pub(crate) const NONCE_BYTES_MAX: usize = 512;
