//! The bounds of what a request may hold. Those of nats-server have its values; the others keep hostile
//! requests small, and lie far above what clients send.

/// Bytes of a stream's or consumer's name (nats-server: `JSMaxNameLen`).
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes of a description (nats-server: `JSMaxDescriptionLen`).
pub const DESCRIPTION_BYTES_MAX: usize = 4 * 1024;
/// Bytes of all keys and values of metadata together (nats-server: `JSMaxMetadataLen`).
pub const METADATA_BYTES_MAX: usize = 128 * 1024;
/// Names in one answer (nats-server: `JSApiNamesLimit`).
pub const NAMES_PAGE: usize = 1024;
/// Streams or consumers in one answer (nats-server: `JSApiListLimit`).
pub const LIST_PAGE: usize = 256;
/// Subjects in one answer to STREAM.INFO (nats-server: `JSMaxSubjectDetails`).
pub const SUBJECTS_PAGE: usize = 100_000;
/// Replicas of a stream (nats-server: `StreamMaxReplicas`).
pub const REPLICAS_MAX: i64 = 5;
/// Bytes of the body of a request. nats-server takes whatever its `max_payload` lets in, 1 MiB by default.
pub const REQUEST_BYTES_MAX: usize = 1024 * 1024;
/// Levels of objects and lists within each other. Requests have six; nats-server takes 10,000.
pub const JSON_DEPTH_MAX: usize = 64;
/// Elements of any list of a request: subjects, sources, filters, transforms, back-off steps. Checks compare
/// each with each, which takes a fifth of a second for so many.
pub const LIST_ELEMENTS_MAX: usize = 2048;
/// Keys of metadata. Beside their bytes each costs about 100 bytes.
pub const METADATA_KEYS_MAX: usize = 16_384;
/// Bytes of the header block of a message (nats-server: 64 KiB - 1).
pub const HEADER_BYTES_MAX: usize = 65_535;
/// Bytes of the id of an atomic batch.
pub const BATCH_ID_BYTES_MAX: usize = 64;
/// Digits of a counter's increment. nats-server has no bound but that of headers.
pub const INCREMENT_DIGITS_MAX: usize = 1024;
