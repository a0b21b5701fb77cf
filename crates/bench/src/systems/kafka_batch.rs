//! Record batches of Kafka, version 2, as far as a load generator needs them: values without keys and
//! headers, without compression.
//!
//! This is written independently of the server's own crate, so that the instrument does not share the
//! server's mistakes. Numbers are big endian; those of records are zigzag varints.

/// Bytes of a batch before its records.
const HEAD_BYTES: usize = 61;

/// Position of the checksum, which covers all that follows.
const CRC_AT: usize = 17;

const MAGIC: u8 = 2;

/// Bits of the attributes.
const COMPRESSION: u16 = 0x07;
const CONTROL: u16 = 0x20;

/// Most bytes that a record adds to its value.
pub(super) const RECORD_OVERHEAD_BYTES: usize = 24;

/// An open batch.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    count: u32,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of records.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The size so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn push(&mut self, value: &[u8]) {
        if self.bytes.is_empty() {
            self.bytes.resize(HEAD_BYTES, 0);
        }
        let (delta, value_bytes) = (i64::from(self.count), value.len() as i64);
        // Attributes, no difference of time, offset, no key, the value's length, and after the value no
        // headers.
        let fixed = 3 + varint_bytes(delta) + varint_bytes(value_bytes) + 1;
        push_varint(&mut self.bytes, fixed as i64 + value_bytes);
        self.bytes.extend_from_slice(&[0, 0]);
        push_varint(&mut self.bytes, delta);
        push_varint(&mut self.bytes, -1);
        push_varint(&mut self.bytes, value_bytes);
        self.bytes.extend_from_slice(value);
        self.bytes.push(0);
        self.count += 1;
    }

    /// Finishes the batch with this time, and starts a new one.
    pub(super) fn finish(&mut self, timestamp_ms: i64) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let count = std::mem::take(&mut self.count);
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        // Base offset 0, attributes 0.
        put(12, &(-1_i32).to_be_bytes()); // leader epoch
        put(16, &[MAGIC]);
        put(23, &(count.saturating_sub(1) as i32).to_be_bytes()); // last offset delta
        put(27, &timestamp_ms.to_be_bytes());
        put(35, &timestamp_ms.to_be_bytes());
        put(43, &(-1_i64).to_be_bytes()); // no producer id,
        put(51, &(-1_i16).to_be_bytes()); // no producer epoch,
        put(53, &(-1_i32).to_be_bytes()); // and no sequence
        put(57, &(count as i32).to_be_bytes());
        let length = (bytes.len() - 12) as i32;
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        let checksum = crc32c::crc32c(&bytes[CRC_AT + 4..]);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }
}

/// Calls `on_value` with offset and value of each record. A last batch that is cut off is ignored. Returns
/// the offset after the last complete batch, if there was one.
pub(super) fn read(
    mut data: &[u8],
    mut on_value: impl FnMut(i64, &[u8]),
) -> Result<Option<i64>, &'static str> {
    let mut next = None;
    while let Some(head) = data.first_chunk::<HEAD_BYTES>() {
        let length = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
        if head[16] != MAGIC || length < HEAD_BYTES - 12 {
            return Err("record batches of version 2");
        }
        let Some((batch, rest)) = data.split_at_checked(12 + length) else { break };
        next = Some(one(head, batch, &mut on_value)?);
        data = rest;
    }
    Ok(next)
}

fn one(
    head: &[u8; HEAD_BYTES],
    batch: &[u8],
    on_value: &mut impl FnMut(i64, &[u8]),
) -> Result<i64, &'static str> {
    let number = |at: usize| i32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if crc32c::crc32c(&batch[CRC_AT + 4..]) != number(CRC_AT) as u32 {
        return Err("record batches with the right checksum");
    }
    let attributes = u16::from_be_bytes([head[21], head[22]]);
    if attributes & COMPRESSION != 0 {
        return Err("record batches without compression (compression.type of the topic)");
    }
    let base = head.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
    if attributes & CONTROL == 0 {
        let mut records = &batch[HEAD_BYTES..];
        for _ in 0..number(57) {
            let (delta, value) = record(&mut records).ok_or("whole records in a batch")?;
            on_value(base + delta, value);
        }
    }
    Ok(base + i64::from(number(23)) + 1)
}

/// Reads one record: its offset delta, and its value. A null value is read as empty.
fn record<'a>(data: &mut &'a [u8]) -> Option<(i64, &'a [u8])> {
    let length = usize::try_from(varint(data)?).ok()?;
    let (mut record, rest) = data.split_at_checked(length)?;
    *data = rest;
    let (_attributes, behind) = record.split_first()?;
    record = behind;
    let _timestamp = varint(&mut record)?;
    let delta = varint(&mut record)?;
    bytes(&mut record)?;
    let value = bytes(&mut record)?;
    Some((delta, value))
}

/// Reads length-prefixed bytes. A length of -1 means none.
fn bytes<'a>(data: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = varint(data)?;
    let (taken, rest) = data.split_at_checked(usize::try_from(length.max(0)).ok()?)?;
    *data = rest;
    Some(taken)
}

fn varint(data: &mut &[u8]) -> Option<i64> {
    let mut number = 0_u64;
    for at in 0..10 {
        let byte = *data.get(at)?;
        number |= u64::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            *data = &data[at + 1..];
            return Some((number >> 1) as i64 ^ -((number & 1) as i64));
        }
    }
    None
}

fn push_varint(out: &mut Vec<u8>, number: i64) {
    let mut left = zigzag(number);
    while left > 0x7F {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

fn varint_bytes(number: i64) -> usize {
    (64 - zigzag(number).leading_zeros() as usize).max(1).div_ceil(7)
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets and values, and the offset after them.
    type Read = (Vec<(i64, Vec<u8>)>, Option<i64>);

    fn values(data: &[u8]) -> Result<Read, &'static str> {
        let mut found = Vec::new();
        let next = read(data, |offset, value| found.push((offset, value.to_vec())))?;
        Ok((found, next))
    }

    #[test]
    fn what_is_written_is_read() {
        let mut batch = Batch::default();
        let payloads: Vec<Vec<u8>> =
            [0, 1, 63, 64, 8_191, 8_192, 100_000].map(|length| vec![length as u8; length]).to_vec();
        for (count, payload) in payloads.iter().enumerate() {
            let before = batch.len();
            batch.push(payload);
            let added = batch.len() - before.max(HEAD_BYTES) - payload.len();
            assert!(added <= RECORD_OVERHEAD_BYTES, "{added}");
            assert_eq!(batch.count() as usize, count + 1);
        }
        let mut data = batch.finish(1_700_000_000_000);
        assert!(batch.is_empty());
        batch.push(b"second");
        let mut second = batch.finish(1_700_000_000_001);
        second[..8].copy_from_slice(&7_i64.to_be_bytes());
        data.extend_from_slice(&second);
        let (found, next) = values(&data).unwrap();
        let mut expected: Vec<_> = (0..).zip(payloads).collect();
        expected.push((7, b"second".to_vec()));
        assert_eq!((found, next), (expected, Some(8)));
        // A batch that is cut off is ignored.
        assert_eq!(values(&data[..data.len() - 1]).unwrap().1, Some(7));
        assert_eq!(values(&data[..data.len() - second.len() + 30]).unwrap().1, Some(7));
        assert_eq!(values(&data[..40]).unwrap(), (Vec::new(), None));
    }

    /// Field by field, as in Kafka's documentation: the single value `abc`.
    #[test]
    fn bytes_of_a_batch() {
        let mut batch = Batch::default();
        batch.push(b"abc");
        let bytes = batch.finish(1_700_000_000_000);
        let mut expected = vec![0; 8]; // base offset
        expected.extend_from_slice(&[0, 0, 0, 59]); // length
        expected.extend_from_slice(&[0xFF, 0xFF, 0xFF, 0xFF, 2]); // leader epoch, magic
        let crc_at = expected.len();
        expected.extend_from_slice(&[0; 4 + 2 + 4]); // checksum, attributes, last offset delta
        expected.extend_from_slice(&[0, 0, 1, 0x8B, 0xCF, 0xE5, 0x68, 0, 0, 0, 1, 0x8B, 0xCF, 0xE5, 0x68, 0]);
        expected.extend_from_slice(&[0xFF; 8 + 2 + 4]); // producer
        expected.extend_from_slice(&[0, 0, 0, 1]); // count
        expected.extend_from_slice(&[18, 0, 0, 0, 1, 6, b'a', b'b', b'c', 0]);
        let checksum = crc32c::crc32c(&expected[crc_at + 4..]).to_be_bytes();
        expected[crc_at..crc_at + 4].copy_from_slice(&checksum);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn damage_and_what_is_not_there_are_noticed() {
        let mut batch = Batch::default();
        batch.push(b"abc");
        let good = batch.finish(5);
        let again = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            let checksum = crc32c::crc32c(&bytes[CRC_AT + 4..]).to_be_bytes();
            bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&checksum);
            values(&bytes)
        };
        for at in CRC_AT..good.len() {
            let mut damaged = good.clone();
            damaged[at] ^= 4;
            assert_eq!(values(&damaged), Err("record batches with the right checksum"), "{at}");
        }
        assert_eq!(values(&[&good[..16], &[1], &good[17..]].concat()), Err("record batches of version 2"));
        assert!(again(&|bytes| bytes[22] = 2).unwrap_err().contains("without compression"));
        // A transaction marker is not a message, but takes an offset.
        assert_eq!(again(&|bytes| bytes[22] = 0x20), Ok((Vec::new(), Some(1))));
        for (at, byte) in [(60, 2), (61, 100), (65, 40), (66, 0x7E)] {
            assert_eq!(again(&|bytes| bytes[at] = byte), Err("whole records in a batch"), "{at}");
        }
    }

    #[test]
    fn numbers() {
        for number in [0, -1, 1, 63, -64, 64, 8_191, 1 << 40, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            push_varint(&mut out, number);
            assert_eq!(out.len(), varint_bytes(number), "{number}");
            let mut rest = &out[..];
            assert_eq!((varint(&mut rest), rest.len()), (Some(number), 0));
            assert_eq!(varint(&mut &out[..out.len() - 1]), None);
        }
    }
}
