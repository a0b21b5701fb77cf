//! Stub until the records branch lands.
#![allow(missing_docs)]
use tailrace_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs};
pub const HEADER_BYTES: usize = 61;
pub const PREFIX_BYTES: usize = 16;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes(pub i16);
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    pub base_offset: Offset,
    pub batch_length: i32,
    pub leader_epoch: LeaderEpoch,
    pub magic: i8,
    pub crc: u32,
    pub attributes: Attributes,
    pub last_offset_delta: i32,
    pub base_timestamp: TimestampMs,
    pub max_timestamp: TimestampMs,
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub base_sequence: i32,
    pub record_count: i32,
}
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BatchError(pub String);
impl BatchHeader {
    pub fn parse(b: &[u8]) -> Result<Self, BatchError> {
        if b.len() < 61 {
            return Err(BatchError("short".into()));
        }
        let i64_at = |p: usize| i64::from_be_bytes(b[p..p + 8].try_into().unwrap());
        let i32_at = |p: usize| i32::from_be_bytes(b[p..p + 4].try_into().unwrap());
        let i16_at = |p: usize| i16::from_be_bytes(b[p..p + 2].try_into().unwrap());
        if b[16] != 2 || i32_at(8) < 49 || i32_at(23) < 0 {
            return Err(BatchError("bad header".into()));
        }
        Ok(Self {
            base_offset: Offset(i64_at(0)),
            batch_length: i32_at(8),
            leader_epoch: LeaderEpoch(i32_at(12)),
            magic: 2,
            crc: i32_at(17) as u32,
            attributes: Attributes(i16_at(21)),
            last_offset_delta: i32_at(23),
            base_timestamp: TimestampMs(i64_at(27)),
            max_timestamp: TimestampMs(i64_at(35)),
            producer_id: ProducerId(i64_at(43)),
            producer_epoch: ProducerEpoch(i16_at(51)),
            base_sequence: i32_at(53),
            record_count: i32_at(57),
        })
    }
    pub fn total_bytes(&self) -> usize {
        12 + self.batch_length as usize
    }
    pub fn last_offset(&self) -> Offset {
        self.base_offset.plus(i64::from(self.last_offset_delta))
    }
    pub fn next_offset(&self) -> Offset {
        self.last_offset().plus(1)
    }
    pub fn prefix(&self) -> [u8; 16] {
        let mut p = [0; 16];
        p[..8].copy_from_slice(&self.base_offset.0.to_be_bytes());
        p[8..12].copy_from_slice(&self.batch_length.to_be_bytes());
        p[12..].copy_from_slice(&self.leader_epoch.0.to_be_bytes());
        p
    }
}
