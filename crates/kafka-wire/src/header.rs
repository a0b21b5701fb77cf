//! Request and response headers. The header's version follows from the API key and the request's version.

use crate::{ApiKey, DecodeError, EncodeError, Reader, TaggedFields, Writer};

/// The header in front of a request body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API of the request.
    pub api_key: ApiKey,
    /// Version of the body. It may be any number, because clients may be newer or wrong.
    pub api_version: i16,
    /// A number chosen by the client. The response repeats it.
    pub correlation_id: i32,
    /// The client's name for itself. Bytes that were not UTF-8 are replaced by U+FFFD.
    pub client_id: Option<String>,
    /// Tagged fields. Only header version 2 has them.
    pub unknown_tagged_fields: TaggedFields,
}

impl RequestHeader {
    /// Reads the header at the start of a request. As in Kafka, an unknown *version* is not an error, so that
    /// ApiVersions can be answered with the supported versions. An unknown key is an error, because its
    /// header layout is unknown.
    ///
    /// # Errors
    /// If the key is unknown or the header is truncated.
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let (key, version) = reader.peek_key_and_version()?;
        let api_key = ApiKey::from_code(key).ok_or(DecodeError::UnknownApiKey { key })?;
        let header_version = api_key.request_header_version(version);
        reader.i16("RequestHeader.api_key")?;
        let api_version = reader.i16("RequestHeader.api_version")?;
        let correlation_id = reader.i32("RequestHeader.correlation_id")?;
        // KIP-511: the client id keeps its 16-bit length in the flexible header, so that old brokers can read
        // it.
        let client_id = reader.nullable_string_lossy("RequestHeader.client_id")?;
        let unknown_tagged_fields = match header_version {
            2 => reader.unknown_tags("RequestHeader")?,
            _ => TaggedFields::default(),
        };
        Ok(Self { api_key, api_version, correlation_id, client_id, unknown_tagged_fields })
    }

    /// Writes the header.
    ///
    /// # Errors
    /// If the client id is too long.
    pub fn encode(&self, writer: &mut Writer) -> Result<(), EncodeError> {
        writer.i16(self.api_key.code());
        writer.i16(self.api_version);
        writer.i32(self.correlation_id);
        writer.nullable_string(self.client_id.as_deref(), false, "RequestHeader.client_id")?;
        if self.api_key.request_header_version(self.api_version) == 2 {
            writer.tag_count(self.unknown_tagged_fields.len(), "RequestHeader")?;
            writer.unknown_tags(&self.unknown_tagged_fields, "RequestHeader")?;
        }
        Ok(())
    }
}

/// The header in front of a response body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseHeader {
    /// The correlation id of the request.
    pub correlation_id: i32,
    /// Tagged fields. Only header version 1 has them.
    pub unknown_tagged_fields: TaggedFields,
}

impl ResponseHeader {
    /// Reads the header of a response to `api_key` at `api_version`.
    ///
    /// # Errors
    /// If the header is truncated.
    pub(crate) fn decode(
        reader: &mut Reader,
        api_key: ApiKey,
        api_version: i16,
    ) -> Result<Self, DecodeError> {
        let correlation_id = reader.i32("ResponseHeader.correlation_id")?;
        let unknown_tagged_fields = match api_key.response_header_version(api_version) {
            1 => reader.unknown_tags("ResponseHeader")?,
            _ => TaggedFields::default(),
        };
        Ok(Self { correlation_id, unknown_tagged_fields })
    }

    /// Writes the header of a response to `api_key` at `api_version`.
    ///
    /// # Errors
    /// If a tagged field is too long.
    pub(crate) fn encode(
        &self,
        writer: &mut Writer,
        api_key: ApiKey,
        api_version: i16,
    ) -> Result<(), EncodeError> {
        writer.i32(self.correlation_id);
        if api_key.response_header_version(api_version) == 1 {
            writer.tag_count(self.unknown_tagged_fields.len(), "ResponseHeader")?;
            writer.unknown_tags(&self.unknown_tagged_fields, "ResponseHeader")?;
        }
        Ok(())
    }
}
