//! The durable form of a consumer's state.
//!
//! A *snapshot* has everything. An *update* has what has changed since the last snapshot, so the newest
//! update and its snapshot are enough. Both begin with the version and the snapshot's number. Numbers are
//! variable length (LEB128), ascending sequences are differences:
//!
//! ```text
//! version (1 byte), kind (1 byte: 0 snapshot, 1 update, 2 update with given-up messages), snapshot number,
//! settled through, ack floor (stream, consumer), reserved consumer sequence, cut + 1 (0: none),
//! count of ranges, each: distance from the end of the one before, length - 1
//! count of delivery counts, each: distance from the one before, deliveries, not before (ms; 0: at once)
//! kinds 0 and 2: count of given-up messages, each: distance from the one before
//! ```
//!
//! The checksum is the log's. Damaged bytes are an error, and never cost more memory than they are long.

use std::collections::BTreeMap;

use super::ranges::{Range, Ranges};

const VERSION: u8 = 1;

/// A pair of sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequences {
    /// Of the stream.
    pub stream: u64,
    /// Of the consumer: the number of a delivery.
    pub consumer: u64,
}

/// Why bytes are no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// A version that this build does not know.
    Version(u8),
    /// A kind that does not fit here.
    Kind(u8),
    /// The bytes end too early, or a number does not fit.
    Damaged,
    /// Bytes are left over.
    Trailing(usize),
    /// The update belongs to another snapshot.
    OtherSnapshot {
        /// The number of the snapshot at hand.
        expected: u64,
        /// The number in the update.
        found: u64,
    },
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Version(version) => {
                write!(f, "version {version} of a consumer's state, {VERSION} is known")
            }
            Self::Kind(kind) => write!(f, "kind {kind} of a consumer's state does not fit here"),
            Self::Damaged => f.write_str("a consumer's state is damaged"),
            Self::Trailing(bytes) => write!(f, "{bytes} bytes follow a consumer's state"),
            Self::OtherSnapshot { expected, found } => {
                write!(f, "an update of snapshot {found}, the snapshot is {expected}")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// What is known of a message that was delivered before a failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recalled {
    pub(super) deliveries: u32,
    /// 0: at once.
    pub(super) not_before_ms: u64,
}

/// What a new leader knows of a consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurableState {
    pub(super) snapshot: u64,
    pub(super) head: Head,
    pub(super) settled: Ranges,
    pub(super) recalled: BTreeMap<u64, Recalled>,
    pub(super) given_up: Vec<u64>,
}

/// The numbers at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) settled_through: u64,
    pub(super) floor: Sequences,
    pub(super) reserved: u64,
    pub(super) cut: Option<u64>,
}

/// What is encoded, borrowed from a consumer.
pub(super) struct Parts<R, C, G> {
    pub(super) snapshot: u64,
    pub(super) head: Head,
    pub(super) ranges: R,
    pub(super) counts: C,
    /// `None`: as before.
    pub(super) given_up: Option<G>,
    pub(super) is_snapshot: bool,
}

impl<R, C, G> Parts<R, C, G>
where
    R: Iterator<Item = Range> + Clone,
    C: Iterator<Item = (u64, Recalled)> + Clone,
    G: ExactSizeIterator<Item = u64>,
{
    pub(super) fn encode(self, bytes: &mut Vec<u8>) {
        let kind = match (self.is_snapshot, &self.given_up) {
            (true, _) => 0,
            (false, None) => 1,
            (false, Some(_)) => 2,
        };
        bytes.extend([VERSION, kind]);
        let Head { settled_through, floor, reserved, cut } = self.head;
        let cut = cut.map_or(0, |cut| cut.saturating_add(1));
        for number in [self.snapshot, settled_through, floor.stream, floor.consumer, reserved, cut] {
            put(number, bytes);
        }
        put(self.ranges.clone().count() as u64, bytes);
        let mut end = 0;
        for Range { first, last } in self.ranges {
            put(first - end, bytes);
            put(last - first, bytes);
            end = last;
        }
        put(self.counts.clone().count() as u64, bytes);
        let mut before = 0;
        for (seq, recalled) in self.counts {
            put(seq - before, bytes);
            put(u64::from(recalled.deliveries), bytes);
            put(recalled.not_before_ms, bytes);
            before = seq;
        }
        let Some(given_up) = self.given_up else { return };
        put(given_up.len() as u64, bytes);
        let mut before = 0;
        for seq in given_up {
            put(seq - before, bytes);
            before = seq;
        }
    }
}

fn put(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.0.split_first().ok_or(DecodeError::Damaged)?;
        self.0 = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && part > 1 {
                return Err(DecodeError::Damaged);
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(DecodeError::Damaged)
    }

    /// Reads a difference, and returns the sum. Only the first may be 0.
    fn after(&mut self, before: Option<u64>) -> Result<u64, DecodeError> {
        let distance = self.number()?;
        if before.is_some() && distance == 0 {
            return Err(DecodeError::Damaged);
        }
        before.unwrap_or(0).checked_add(distance).ok_or(DecodeError::Damaged)
    }
}

impl DurableState {
    /// Decodes a snapshot, and the newest update if there is one.
    ///
    /// # Errors
    /// If the bytes are damaged, or the update is of another snapshot.
    pub fn decode(snapshot: &[u8], update: Option<&[u8]>) -> Result<Self, DecodeError> {
        let mut state = Self::default();
        state.apply(snapshot, true)?;
        if let Some(update) = update {
            state.apply(update, false)?;
        }
        Ok(state)
    }

    /// Returns the number of the last snapshot. Each has a higher one.
    pub fn snapshot(&self) -> u64 {
        self.snapshot
    }

    /// Returns the sequence up to which the consumer is done with everything.
    pub fn settled_through(&self) -> u64 {
        self.head.settled_through
    }

    fn apply(&mut self, bytes: &[u8], is_snapshot: bool) -> Result<(), DecodeError> {
        let mut reader = Reader(bytes);
        let version = reader.byte()?;
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        let kind = reader.byte()?;
        if kind > 2 || (kind == 0) != is_snapshot {
            return Err(DecodeError::Kind(kind));
        }
        let number = reader.number()?;
        if !is_snapshot && number != self.snapshot {
            return Err(DecodeError::OtherSnapshot { expected: self.snapshot, found: number });
        }
        self.snapshot = number;
        self.head = Head {
            settled_through: reader.number()?,
            floor: Sequences { stream: reader.number()?, consumer: reader.number()? },
            reserved: reader.number()?,
            cut: reader.number()?.checked_sub(1),
        };
        self.lists(&mut reader, kind)?;
        if !reader.0.is_empty() {
            return Err(DecodeError::Trailing(reader.0.len()));
        }
        self.settled.remove_through(self.head.settled_through);
        let Self { head, settled, recalled, .. } = self;
        recalled.retain(|seq, _| *seq > head.settled_through && !settled.contains(*seq));
        Ok(())
    }

    fn lists(&mut self, reader: &mut Reader<'_>, kind: u8) -> Result<(), DecodeError> {
        let mut end = None;
        for _ in 0..reader.number()? {
            let first = reader.after(end)?;
            let last = first.checked_add(reader.number()?).ok_or(DecodeError::Damaged)?;
            let range = Range { first, last };
            if kind == 0 {
                self.settled.restore(range)
            } else {
                self.settled.insert(range)
            }
            end = Some(last);
        }
        let mut before = None;
        for _ in 0..reader.number()? {
            let seq = reader.after(before)?;
            let deliveries = u32::try_from(reader.number()?).map_err(|_| DecodeError::Damaged)?;
            let recalled = Recalled { deliveries, not_before_ms: reader.number()? };
            self.recalled.insert(seq, recalled);
            before = Some(seq);
        }
        if kind == 1 {
            return Ok(());
        }
        self.given_up.clear();
        let mut before = None;
        for _ in 0..reader.number()? {
            let seq = reader.after(before)?;
            self.given_up.push(seq);
            before = Some(seq);
        }
        Ok(())
    }
}

/// What is durable, and what must become so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Saving {
    /// The number of the last snapshot.
    pub(super) snapshot: u64,
    /// Consumer sequences up to here may be given out.
    pub(super) reserved: u64,
    /// What the last encoded state reserves.
    pub(super) reserving: u64,
    /// Counts what was encoded.
    pub(super) version: u64,
    /// What was encoded up to this version reserves nothing any more.
    pub(super) void_through: u64,
    /// True if something has changed since the last encoded state.
    pub(super) is_dirty: bool,
    /// True if the next encoded state must be a snapshot.
    pub(super) needs_snapshot: bool,
}
