//! A connection to a Kafka listener, and the requests of the loads.

use std::io::{Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{BufMut, Bytes, BytesMut};
use tailrace_kafka_wire::messages::{
    FetchRequest, ProduceRequest, SaslAuthenticateRequest, SaslHandshakeRequest, fetch_request,
    produce_request,
};
use tailrace_kafka_wire::{Records, Request, decode_response, request_frame};

use crate::scram::User;
use crate::stream::{Stream, Way};
use crate::{Arguments, Failure};

pub(crate) const PRODUCE_VERSION: i16 = 9;
pub(crate) const FETCH_VERSION: i16 = 11;

/// A connection. Requests may be sent before the answers to earlier ones are read.
pub(crate) struct Broker {
    stream: Stream,
    correlation: i32,
}

/// The user of a load, if it logs in.
pub(crate) fn user(arguments: &Arguments) -> Result<Option<User>, Failure> {
    let Some(name) = arguments.given("user") else { return Ok(None) };
    Ok(Some(User::new(name, arguments.text("password")?)))
}

impl Broker {
    pub(crate) fn connect(way: &Way, user: Option<&User>) -> Result<Self, Failure> {
        let mut broker = Self { stream: way.connect()?, correlation: 0 };
        if let Some(user) = user {
            broker.log_in(user)?;
        }
        Ok(broker)
    }

    fn log_in(&mut self, user: &User) -> Result<(), Failure> {
        let mechanism = "SCRAM-SHA-256".to_owned();
        let answer = self.call(1, &SaslHandshakeRequest { mechanism })?;
        if answer.error_code != 0 {
            return Err(format!("SCRAM-SHA-256 is not offered, but {:?}", answer.mechanisms).into());
        }
        let (begun, first) = user.begin()?;
        let server = self.token(first)?;
        let last = user.finish(&begun, std::str::from_utf8(&server)?)?;
        self.token(last).map(drop)
    }

    fn token(&mut self, text: String) -> Result<Bytes, Failure> {
        let request = SaslAuthenticateRequest { auth_bytes: Bytes::from(text), ..Default::default() };
        let answer = self.call(2, &request)?;
        match answer.error_code {
            0 => Ok(answer.auth_bytes),
            code => Err(format!("the login failed: {code} {:?}", answer.error_message).into()),
        }
    }

    pub(crate) fn call<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response, Failure> {
        self.send(version, request)?;
        self.receive::<R>(version)
    }

    pub(crate) fn send<R: Request>(&mut self, version: i16, request: &R) -> Result<(), Failure> {
        self.correlation += 1;
        let frame = request_frame(self.correlation, Some("bench"), version, request)?;
        let bytes = frame.into_bytes().map_err(|_| "the request has external parts")?;
        Ok(self.stream.write_all(&bytes)?)
    }

    /// Reads the next answer.
    pub(crate) fn receive<R: Request>(&mut self, version: i16) -> Result<R::Response, Failure> {
        let body = self.receive_bytes()?;
        let (_, response) = decode_response::<R>(body, version)?;
        Ok(response)
    }

    fn receive_bytes(&mut self) -> Result<Bytes, Failure> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut body = vec![0; usize::try_from(i32::from_be_bytes(length))?];
        self.stream.read_exact(&mut body)?;
        Ok(body.into())
    }
}

/// Returns a request to append this batch, with an acknowledgement of the leader.
pub(crate) fn produce(topic: &str, batch: &Bytes) -> ProduceRequest {
    let data = produce_request::PartitionProduceData {
        index: 0,
        records: Records::Bytes(batch.clone()),
        ..Default::default()
    };
    let topic = produce_request::TopicProduceData {
        name: topic.to_owned(),
        partition_data: vec![data],
        ..Default::default()
    };
    ProduceRequest { acks: 1, timeout_ms: 30_000, topic_data: vec![topic], ..Default::default() }
}

/// Returns a request for up to a megabyte from this offset on.
pub(crate) fn fetch(topic: &str, offset: i64) -> FetchRequest {
    let partition = fetch_request::FetchPartition {
        fetch_offset: offset,
        partition_max_bytes: 1 << 20,
        current_leader_epoch: -1,
        log_start_offset: -1,
        ..Default::default()
    };
    let topic = fetch_request::FetchTopic {
        topic: topic.to_owned(),
        partitions: vec![partition],
        ..Default::default()
    };
    FetchRequest {
        max_wait_ms: 1000,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    }
}

/// Returns a batch of equal records of this moment. Kafka deletes segments whose records are older than its
/// retention, also while they are read.
pub(crate) fn batch(records: i32, value_bytes: usize) -> Bytes {
    let mut body = BytesMut::new();
    for delta in 0..records {
        let mut record = BytesMut::new();
        record.put_u8(0);
        varint(&mut record, 0);
        varint(&mut record, i64::from(delta));
        varint(&mut record, -1);
        varint(&mut record, value_bytes as i64);
        record.put_bytes(b'x', value_bytes);
        varint(&mut record, 0);
        varint(&mut body, record.len() as i64);
        body.extend_from_slice(&record);
    }
    let mut checked = BytesMut::new();
    checked.put_i16(0);
    checked.put_i32(records - 1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    checked.put_i64(now);
    checked.put_i64(now);
    checked.put_i64(-1);
    checked.put_i16(-1);
    checked.put_i32(-1);
    checked.put_i32(records);
    checked.extend_from_slice(&body);
    let mut batch = BytesMut::new();
    batch.put_i64(0);
    batch.put_i32(9 + checked.len() as i32);
    batch.put_i32(-1);
    batch.put_i8(2);
    batch.put_u32(crc32c::crc32c(&checked));
    batch.extend_from_slice(&checked);
    batch.freeze()
}

fn varint(out: &mut BytesMut, value: i64) {
    let mut left = ((value << 1) ^ (value >> 63)) as u64;
    while left >= 0x80 {
        out.put_u8(left as u8 | 0x80);
        left >>= 7;
    }
    out.put_u8(left as u8);
}
