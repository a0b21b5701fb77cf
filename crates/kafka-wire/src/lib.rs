//! The Kafka protocol: frames, headers and messages at every version, without I/O.
//!
//! `cargo xtask codegen` generates the messages from the definitions in Kafka's client library. Reading,
//! writing and framing are written by hand. Any input is safe: none panics, and none makes decoding allocate
//! more than [`memory_budget_bytes`]. Records stay opaque. They are slices of the received frame, or parts of
//! the sent one.
//!
//! Out of scope: sockets, splitting a stream into frames, record batches (crate `tailrace-records`), and the
//! choice of versions that a server advertises.
//!
//! ```
//! use tailrace_kafka_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
//! use tailrace_kafka_wire::{ErrorCode, Reader, RequestHeader, decode_body, request_frame, response_frame};
//!
//! let sent = request_frame(7, Some("me"), 0, &ApiVersionsRequest::default())?;
//! let received = sent.into_bytes().expect("no external parts").slice(4..);
//!
//! let mut reader = Reader::new(received);
//! let header = RequestHeader::decode(&mut reader)?;
//! let request: ApiVersionsRequest = decode_body(reader, header.api_version)?;
//! assert_eq!(request, ApiVersionsRequest::default());
//!
//! let answer = ApiVersionsResponse { error_code: ErrorCode::None.code(), ..Default::default() };
//! let frame = response_frame(header.correlation_id, header.api_version, &answer)?;
//! assert_eq!(frame.total_bytes(), 14);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod elements;
mod error;
mod error_code;
mod fields;
mod frame;
mod header;
mod message;
pub mod messages;
pub mod own_fields;
mod reader;
mod version;
mod writer;

pub use error::{DecodeError, EncodeError};
pub use error_code::ErrorCode;
pub use fields::{Records, TaggedField, TaggedFields};
pub use frame::{
    Frame, FrameLengthError, LENGTH_PREFIX_BYTES, decode_body, decode_response, frame_bytes, request_frame,
    response_frame,
};
pub use header::RequestHeader;
pub(crate) use header::ResponseHeader;
pub use message::{Element, Message, Request, RequestVisitor, Response, Structure};
pub use messages::api_key::ApiKey;
pub(crate) use reader::STRING_BYTES_MAX;
pub use reader::{MEMORY_BYTES_PER_FRAME_BYTE, Reader, Tag, UNKNOWN_TAGS_MAX, memory_budget_bytes};
pub use version::VersionRange;
pub use writer::{LINK_BYTES_MIN, Part, Writer, required};
