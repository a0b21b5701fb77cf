//! Headers and frames, byte for byte.

use bytes::Bytes;
use tailrace_kafka_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, FetchRequest, MetadataRequest, api_versions_response::ApiVersion,
};
use tailrace_kafka_wire::{
    ApiKey, EncodeError, ErrorCode, FrameLengthError, Message, Reader, RequestHeader, Writer,
    decode_response, frame_bytes, request_frame, response_frame,
};

#[test]
fn a_request_frame_of_a_classic_version() {
    let frame = request_frame(0x0102_0304, Some("ab"), 0, &ApiVersionsRequest::default()).expect("encodes");
    let expected = [0, 0, 0, 12, 0, 18, 0, 0, 1, 2, 3, 4, 0, 2, b'a', b'b'];
    assert_eq!(frame.into_bytes().expect("in memory"), Bytes::copy_from_slice(&expected));
}

#[test]
fn a_request_frame_of_a_flexible_version() {
    let request = ApiVersionsRequest {
        client_software_name: "x".to_owned(),
        client_software_version: "1".to_owned(),
        ..Default::default()
    };
    let frame = request_frame(5, None, 3, &request).expect("encodes");
    // The client id keeps its classic length. The header's tagged fields come after it, and the body's come
    // last.
    let expected = [0, 0, 0, 16, 0, 18, 0, 3, 0, 0, 0, 5, 0xff, 0xff, 0, 2, b'x', 2, b'1', 0];
    assert_eq!(frame.into_bytes().expect("in memory"), Bytes::copy_from_slice(&expected));
}

#[test]
fn an_answer_to_api_versions_has_the_classic_header_at_every_version() {
    for version in ApiVersionsResponse::VERSIONS.iter() {
        assert_eq!(ApiKey::ApiVersions.response_header_version(version), 0);
    }
    let api_keys = vec![ApiVersion { api_key: 18, min_version: 0, max_version: 4, ..Default::default() }];
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        api_keys,
        ..Default::default()
    };
    let frame = response_frame(9, 0, &response).expect("encodes").into_bytes().expect("in memory");
    assert_eq!(&frame[..], &[0, 0, 0, 16, 0, 0, 0, 9, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4]);
    let frame = response_frame(9, 3, &response).expect("encodes").into_bytes().expect("in memory");
    assert_eq!(&frame[4..], &[0, 0, 0, 9, 0, 35, 2, 0, 18, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0]);
    assert_eq!(decode_response::<ApiVersionsRequest>(frame.slice(4..), 3), Ok((9, response)));
}

#[test]
fn header_versions_follow_from_key_and_version() {
    assert_eq!(ApiKey::Produce.request_header_version(8), 1);
    assert_eq!(ApiKey::Produce.request_header_version(9), 2);
    assert_eq!(ApiKey::Produce.response_header_version(8), 0);
    assert_eq!(ApiKey::Produce.response_header_version(9), 1);
    assert_eq!(ApiKey::SaslHandshake.request_header_version(1), 1);
    assert_eq!(ApiKey::ApiVersions.request_header_version(3), 2);
    assert_eq!(ApiKey::ApiVersions.request_header_version(-1), 1);
}

#[test]
fn unstable_versions_are_told_apart() {
    assert_eq!(ApiKey::InitProducerId.versions().max, 6);
    assert_eq!(ApiKey::InitProducerId.stable_versions().max, 5);
    for key in ApiKey::ALL.iter().filter(|key| **key != ApiKey::InitProducerId) {
        assert_eq!(key.versions(), key.stable_versions(), "{}", key.name());
    }
}

#[test]
fn keys_and_error_codes_are_found_by_number() {
    for key in ApiKey::ALL {
        assert_eq!(ApiKey::from_code(key.code()), Some(*key));
    }
    assert_eq!(ApiKey::from_code(4), None);
    for (code, number) in ErrorCode::ALL.iter().zip(-1..) {
        assert_eq!((code.code(), ErrorCode::from_code(number)), (number, Some(*code)));
    }
    assert_eq!(ErrorCode::ALL.len(), 135);
    assert_eq!(ErrorCode::from_code(1000), None);
    assert_eq!(
        ErrorCode::NotLeaderOrFollower.to_string().split_once(' ').map(|(name, _)| name),
        Some("NOT_LEADER_OR_FOLLOWER")
    );
    assert!(ErrorCode::NotLeaderOrFollower.is_retriable() && !ErrorCode::MessageTooLarge.is_retriable());
}

#[test]
fn a_client_id_that_is_not_utf8_is_tolerated() {
    let bytes = Bytes::from_static(&[0, 3, 0, 1, 0, 0, 0, 1, 0, 2, b'a', 0xff]);
    let header = RequestHeader::decode(&mut Reader::new(bytes)).expect("a header");
    assert_eq!(header.client_id.as_deref(), Some("a\u{fffd}"));
}

#[test]
fn a_value_that_the_version_lacks_is_refused_unless_it_may_be_dropped() {
    let mut writer = Writer::new();
    let request = FetchRequest { rack_id: "r".to_owned(), ..Default::default() };
    assert_eq!(request.encode(&mut writer, 4), Ok(()), "the rack may be dropped");
    let request = FetchRequest { replica_id: 3, ..Default::default() };
    let refused = EncodeError::FieldNotInVersion { field: "FetchRequest.replica_id", version: 15 };
    assert_eq!(request.encode(&mut writer, 15), Err(refused));
    let request = MetadataRequest { topics: None, ..Default::default() };
    assert_eq!(request.encode(&mut writer, 0), Err(EncodeError::Null { field: "MetadataRequest.topics" }));
    assert_eq!(request.encode(&mut writer, 1), Ok(()));
}

#[test]
fn a_length_prefix_is_judged_before_the_frame_comes() {
    assert_eq!(frame_bytes([0, 0, 0, 100], 100), Ok(100));
    for length in [-1, 0, 101, i32::MIN, i32::MAX] {
        let refused = Err(FrameLengthError { length, bytes_max: 100 });
        assert_eq!(frame_bytes(length.to_be_bytes(), 100), refused);
    }
}
