//! Records pass through without being copied, however large they are.

use bytes::Bytes;
use tailrace_kafka_wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use tailrace_kafka_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use tailrace_kafka_wire::messages::{FetchRequest, FetchResponse, ProduceRequest};
use tailrace_kafka_wire::{
    LINK_BYTES_MIN, Part, Reader, Records, RequestHeader, decode_body, decode_response, request_frame,
    response_frame,
};

use super::allocations::peak_bytes;

const MEGABYTES: usize = 8 << 20;
/// More than a frame without records and its list of parts take, and far less than the records.
const SMALL: usize = 4096;

fn fetch_response(records: Records) -> FetchResponse {
    let partitions = vec![PartitionData { partition_index: 3, records, ..Default::default() }];
    let responses = vec![FetchableTopicResponse { topic: "t".to_owned(), partitions, ..Default::default() }];
    FetchResponse { responses, ..Default::default() }
}

fn produce_request(records: Records) -> ProduceRequest {
    let partition_data = vec![PartitionProduceData { index: 3, records, ..Default::default() }];
    let topic_data = vec![TopicProduceData { name: "t".to_owned(), partition_data, ..Default::default() }];
    ProduceRequest { acks: -1, topic_data, ..Default::default() }
}

#[test]
fn external_records_become_a_part_that_the_length_prefix_covers() {
    let external = Records::External { bytes: 1_000_000, tag: 7 };
    for version in [4, 11, 12] {
        let frame = response_frame(1, version, &fetch_response(external.clone())).expect("encodes");
        let [Part::Bytes(head), Part::External { bytes: 1_000_000, tag: 7 }, tail @ ..] = frame.parts()
        else {
            panic!("{:?}", frame.parts());
        };
        let tail_bytes: usize = tail.iter().map(Part::len).sum();
        assert_eq!(frame.total_bytes(), (head.len() + 1_000_000 + tail_bytes) as u64);
        let prefix = u32::from_be_bytes(*head.first_chunk().expect("a prefix"));
        assert_eq!(u64::from(prefix) + 4, frame.total_bytes());
    }
}

#[test]
fn a_frame_of_external_records_is_what_one_of_records_in_memory_is() {
    let records = Bytes::from(vec![0x5a; 100_000]);
    for version in 4..=18 {
        let in_memory = response_frame(1, version, &fetch_response(records.clone().into())).expect("encodes");
        let external = Records::External { bytes: 100_000, tag: 0 };
        let external = response_frame(1, version, &fetch_response(external)).expect("encodes");
        let with_records: Vec<_> = external
            .into_parts()
            .into_iter()
            .map(|part| match part {
                Part::External { .. } => Part::Bytes(records.clone()),
                bytes @ Part::Bytes(_) => bytes,
            })
            .collect();
        assert_eq!(with_records, in_memory.into_parts(), "v{version}");
    }
}

#[test]
fn null_records_of_a_fetch_are_sent_as_an_empty_field() {
    for version in 4..=18 {
        let frame = response_frame(1, version, &fetch_response(Records::Null)).expect("encodes");
        let bytes = frame.into_bytes().expect("in memory").slice(4..);
        let (_, decoded) = decode_response::<FetchRequest>(bytes, version).expect("decodes");
        assert_eq!(decoded.responses[0].partitions[0].records, Records::Bytes(Bytes::new()), "v{version}");
    }
}

#[test]
fn null_records_of_a_produce_stay_null() {
    let frame = request_frame(1, None, 9, &produce_request(Records::Null)).expect("encodes");
    let mut reader = Reader::new(frame.into_bytes().expect("in memory").slice(4..));
    RequestHeader::decode(&mut reader).expect("a header");
    let request: ProduceRequest = decode_body(reader, 9).expect("decodes");
    assert_eq!(request.topic_data[0].partition_data[0].records, Records::Null);
}

#[test]
fn small_records_are_copied_and_large_ones_linked() {
    let small = Bytes::from(vec![1; LINK_BYTES_MIN - 1]);
    let frame = response_frame(1, 12, &fetch_response(small.into())).expect("encodes");
    assert_eq!(frame.parts().len(), 1);
    let large = Bytes::from(vec![1; LINK_BYTES_MIN]);
    let frame = response_frame(1, 12, &fetch_response(large.clone().into())).expect("encodes");
    let [_, Part::Bytes(linked), _] = frame.parts() else { panic!("{:?}", frame.parts().len()) };
    assert_eq!(linked.as_ptr(), large.as_ptr());
}

#[test]
fn megabytes_of_records_are_never_copied() {
    let records = Bytes::from(vec![7; MEGABYTES]);
    let request = produce_request(records.clone().into());
    let (frame, encoding) = peak_bytes(|| request_frame(1, None, 9, &request).expect("encodes"));
    assert!(encoding < SMALL, "encoding took {encoding} bytes");

    let received = frame.into_bytes().expect("in memory").slice(4..);
    let range = received.as_ptr_range();
    let (request, decoding) = peak_bytes(|| {
        let mut reader = Reader::new(received);
        RequestHeader::decode(&mut reader).expect("a header");
        decode_body::<ProduceRequest>(reader, 9).expect("decodes")
    });
    assert!(decoding < SMALL, "decoding took {decoding} bytes");
    let decoded = request.topic_data[0].partition_data[0].records.as_bytes().expect("in memory");
    assert!(*decoded == records && range.contains(&decoded.as_ptr()), "not a slice of the frame");
}

#[test]
fn a_frame_beyond_two_gibibytes_is_refused() {
    let huge = Records::External { bytes: i32::MAX as u32, tag: 0 };
    let error = response_frame(1, 12, &fetch_response(huge)).expect_err("too long");
    assert!(error.to_string().starts_with("expected a frame of at most 2147483647 bytes"), "{error}");
    let huger = Records::External { bytes: u32::MAX, tag: 0 };
    assert!(response_frame(1, 12, &fetch_response(huger)).is_err());
}
