//! Batches that are malformed or too large.

use super::*;

use crate::common::rig::*;
use crate::common::{TestServer, error};
use bytes::Bytes;
use tailrace_kafka_wire::ErrorCode;
use tailrace_records::{BatchBuilder, BatchOptions, Compression};

const CODECS: [Compression; 4] =
    [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

/// Corrects the checksum of a batch that was tampered with.
fn sealed(mut batch: Vec<u8>) -> Bytes {
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch.into()
}

fn tampered(at: usize, bytes: &[u8]) -> Bytes {
    let mut batch = numbered(0, 3, 40).to_vec();
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    sealed(batch)
}

/// Builds a compressed batch of `bytes` bytes of zeros.
fn zeros(codec: Compression, bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions { compression: codec, ..BatchOptions::default() });
    builder.push(now(), None, Some(&vec![0; bytes]), &[]).expect("the record fits into the batch");
    builder.build()
}

#[tokio::test]
async fn batches_that_are_not_sound_are_refused_and_leave_nothing_behind() {
    use ErrorCode::{CorruptMessage, InvalidRecord, MessageTooLarge};
    let server = server().await;
    let mut client = server.connect().await;
    let good = numbered(0, 3, 40);
    let mut wrong_crc = good.to_vec();
    wrong_crc[80] ^= 1;
    let longer = i32::try_from(good.len() - 12 + 10).expect("short");
    let shorter = i32::try_from(good.len() - 12 - 10).expect("short");
    let mut cases = vec![
        ("wrong CRC", wrong_crc.into(), CorruptMessage),
        ("length beyond the field", tampered(8, &longer.to_be_bytes()), InvalidRecord),
        ("length of less", tampered(8, &shorter.to_be_bytes()), CorruptMessage),
        ("length of less than a header", tampered(8, &10_i32.to_be_bytes()), CorruptMessage),
        ("negative length", tampered(8, &(-5_i32).to_be_bytes()), CorruptMessage),
        ("more records", tampered(57, &4_i32.to_be_bytes()), InvalidRecord),
        ("fewer records", tampered(57, &2_i32.to_be_bytes()), InvalidRecord),
        ("negative records", tampered(57, &(-1_i32).to_be_bytes()), InvalidRecord),
        ("very many records", tampered(57, &i32::MAX.to_be_bytes()), InvalidRecord),
        ("last offset disagrees", tampered(23, &9_i32.to_be_bytes()), InvalidRecord),
        ("magic 0", tampered(16, &[0]), InvalidRecord),
        ("magic 1", tampered(16, &[1]), InvalidRecord),
        ("magic 3", tampered(16, &[3]), CorruptMessage),
        ("a control batch", tampered(21, &[0, 0x20]), InvalidRecord),
        ("an unknown codec", tampered(21, &[0, 6]), CorruptMessage),
        ("base offset", tampered(0, &1_i64.to_be_bytes()), InvalidRecord),
        ("two batches", [&good[..], &good].concat().into(), InvalidRecord),
        ("half a batch", good.slice(..good.len() / 2), InvalidRecord),
        ("half a header", good.slice(..30), InvalidRecord),
        ("nothing", Bytes::new(), InvalidRecord),
    ];
    for codec in CODECS {
        let compressed = zeros(codec, 5000).to_vec();
        let mut torn = compressed.clone();
        torn.truncate(compressed.len() - 5);
        let length = i32::try_from(torn.len() - 12).expect("short");
        torn[8..12].copy_from_slice(&length.to_be_bytes());
        cases.push(("torn compression", sealed(torn), CorruptMessage));
        let mut noise = compressed.clone();
        noise[61..].iter_mut().enumerate().for_each(|(n, byte)| *byte = (n * 37 + 11) as u8);
        cases.push(("noise as compression", sealed(noise), CorruptMessage));
        cases.push(("a bomb", zeros(codec, 3 << 20), MessageTooLarge));
    }
    for (what, batch, code) in cases {
        let mut request = produce_request("t", 0, -1, batch);
        request.timeout_ms = 5_000;
        let settled = client.try_call(9, &request).await.expect("an answer");
        let answer = only_answer(settled);
        assert_eq!(error(answer.error_code), code, "{what}: {:?}", answer.error_message);
        assert_eq!(answer.base_offset, -1, "{what}");
    }
    assert_eq!(client.read_all("t", 0, 0).await.len(), 0);
    assert_eq!(client.produce_to("t", 0, -1, good).await.base_offset, 0);
}

#[tokio::test]
async fn a_batch_may_have_the_largest_size_and_no_byte_more() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let batch = numbered(0, 1, 500);
    let limit = batch.len().to_string();
    client.create_topic("fits", 1, &[("max.message.bytes", &limit)]).await;
    let limit = (batch.len() - 1).to_string();
    client.create_topic("short", 1, &[("max.message.bytes", &limit)]).await;
    assert_eq!(client.produce_to("fits", 0, -1, batch.clone()).await.error_code, 0);
    let refused = client.produce_to("short", 0, -1, batch).await;
    assert_eq!(error(refused.error_code), ErrorCode::MessageTooLarge);
}

#[tokio::test]
async fn acks_0_with_an_error_closes_and_without_goes_on() {
    let server = server().await;
    let mut client = server.connect().await;
    client.send(9, &produce_request("t", 0, 0, numbered(0, 1, 50))).await;
    assert_eq!(client.topic("t").await.error_code, 0, "the connection stays open, without a response");
    client.send(9, &produce_request("t", 0, 0, tampered(16, &[1]))).await;
    assert!(client.is_closed().await);
    let mut client = server.connect().await;
    client.send(9, &produce_request("nowhere", 0, 0, numbered(0, 1, 50))).await;
    assert!(client.is_closed().await);
    let mut client = server.connect().await;
    assert_eq!(decoded(&client.fetch_from("t", 0, 0).await).len(), 1);
    for acks in [2, -2, 100] {
        let answer = client.produce_to("t", 0, acks, numbered(0, 1, 50)).await;
        assert_eq!(error(answer.error_code), ErrorCode::InvalidRequiredAcks);
    }
    assert_eq!(client.read_all("t", 0, 0).await.len(), 1);
}
