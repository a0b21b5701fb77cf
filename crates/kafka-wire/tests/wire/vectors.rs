//! Random encodings of any message at any version, made from its description.

use bytes::Bytes;

use super::schema::{Field, Kind, Message, Structure};

/// First of the tags that no message uses.
const UNKNOWN_TAG: u32 = 1000;

/// SplitMix64: small, and the same on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    pub(crate) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// A length or count within a vector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LengthMark {
    pub(crate) position: usize,
    pub(crate) width: Width,
    pub(crate) nullable: bool,
    pub(crate) of_records: bool,
}

/// How a length is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Two,
    Four,
    Varint,
}

/// An encoded message body.
pub(crate) struct Vector {
    pub(crate) message: &'static Message,
    pub(crate) version: i16,
    pub(crate) bytes: Bytes,
    pub(crate) lengths: Vec<LengthMark>,
}

/// Returns a random body of `message` at `version`. The body is canonical: decoding and encoding it yields
/// the same bytes.
pub(crate) fn vector(message: &'static Message, version: i16, random: &mut Random) -> Vector {
    let flexible = message.is_flexible(version);
    let mut maker = Maker { message, version, flexible, random, bytes: Vec::new(), lengths: Vec::new() };
    maker.structure(&message.structures[0]);
    let Maker { bytes, lengths, .. } = maker;
    Vector { message, version, bytes: bytes.into(), lengths }
}

/// Returns `per_version` vectors of every message at every version.
pub(crate) fn all(per_version: usize, seed: u64) -> impl Iterator<Item = Vector> {
    let mut random = Random(seed);
    let versions = super::schema_data::MESSAGES.iter().flat_map(move |message| {
        message.all_versions().flat_map(move |version| (0..per_version).map(move |_| (*message, version)))
    });
    versions.map(move |(message, version)| vector(message, version, &mut random))
}

struct Maker<'a> {
    message: &'static Message,
    version: i16,
    flexible: bool,
    random: &'a mut Random,
    bytes: Vec<u8>,
    lengths: Vec<LengthMark>,
}

impl Maker<'_> {
    fn structure(&mut self, structure: &'static Structure) {
        let present = || structure.fields.iter().filter(|field| field.is_present(self.version));
        let plain: Vec<_> = present().filter(|field| field.tag.is_none()).collect();
        let mut tagged: Vec<_> = present().filter(|field| field.tag.is_some()).collect();
        plain.into_iter().for_each(|field| self.field(field));
        if self.flexible {
            tagged.sort_by_key(|field| field.tag);
            tagged.retain(|_| self.random.one_in(2));
            self.tags(&tagged);
        }
    }

    fn tags(&mut self, tagged: &[&'static Field]) {
        let unknown = if self.random.one_in(4) { 1 + self.random.below(2) } else { 0 };
        self.varint(tagged.len() + unknown);
        for field in tagged {
            self.varint(field.tag.expect("a tag") as usize);
            let before = std::mem::take(&mut self.bytes);
            let marks = self.lengths.len();
            self.tagged_value(field);
            let content = std::mem::replace(&mut self.bytes, before);
            self.varint(content.len());
            for mark in &mut self.lengths[marks..] {
                mark.position += self.bytes.len();
            }
            self.bytes.extend(content);
        }
        for index in 0..unknown {
            self.varint(UNKNOWN_TAG as usize + index);
            let length = self.random.below(5);
            self.varint(length);
            self.raw(length);
        }
    }

    /// Writes a value other than the default, because a tagged field with its default is left out.
    fn tagged_value(&mut self, field: &'static Field) {
        match &field.kind {
            Kind::Bool => self.bytes.push(u8::from(!field.default_true)),
            Kind::Array(element) => self.array(element, 1, field.is_nullable(self.version)),
            Kind::String | Kind::Bytes => {
                let width = if self.flexible { Width::Varint } else { Width::Four };
                self.length(3, width, field.is_nullable(self.version), false);
                self.bytes.extend(b"tag");
            }
            kind => self.value(kind, false),
        }
    }

    fn field(&mut self, field: &'static Field) {
        let nullable = field.is_nullable(self.version);
        // Responses write null records as empty ones, so a null would not be canonical.
        let may_be_null = nullable && (self.message.request || !matches!(field.kind, Kind::Records));
        let null = may_be_null && self.random.one_in(4);
        match &field.kind {
            Kind::Structure(_) if null => self.bytes.push(0xff),
            Kind::Structure(_) if nullable => {
                self.bytes.push(1);
                self.value(&field.kind, true);
            }
            _ if null => self.null(&field.kind),
            kind => self.value(kind, nullable),
        }
    }

    fn value(&mut self, kind: &'static Kind, nullable: bool) {
        match kind {
            Kind::Bool => {
                let value = u8::from(self.random.one_in(2));
                self.bytes.push(value);
            }
            Kind::Number(bytes) => self.number(*bytes),
            Kind::Uuid => self.raw(16),
            Kind::String => self.string(nullable),
            Kind::Bytes | Kind::Records => {
                let length = self.random.below(20);
                let width = if self.flexible { Width::Varint } else { Width::Four };
                self.length(length, width, nullable, matches!(kind, Kind::Records));
                self.raw(length);
            }
            Kind::Structure(name) => self.structure(self.message.structure(name)),
            Kind::Array(element) => {
                let count = self.random.below(4);
                self.array(element, count, nullable);
            }
        }
    }

    fn array(&mut self, element: &'static Kind, count: usize, nullable: bool) {
        self.length(count, if self.flexible { Width::Varint } else { Width::Four }, nullable, false);
        for _ in 0..count {
            self.value(element, false);
        }
    }

    /// Writes a number that is never zero or one, because those are defaults of tagged fields.
    fn number(&mut self, bytes: usize) {
        let value = self.random.next() | 0x0202_0202_0202_0202;
        self.bytes.extend(&value.to_be_bytes()[..bytes]);
    }

    fn string(&mut self, nullable: bool) {
        const PIECES: &[&str] = &["a", "Z", "0", ".", "-", "é", "→", "🦀", "\0"];
        let text: String =
            (0..self.random.below(9)).map(|_| PIECES[self.random.below(PIECES.len())]).collect();
        let width = if self.flexible { Width::Varint } else { Width::Two };
        self.length(text.len(), width, nullable, false);
        self.bytes.extend(text.as_bytes());
    }

    fn null(&mut self, kind: &Kind) {
        match kind {
            _ if self.flexible => self.bytes.push(0),
            Kind::String => self.bytes.extend([0xff; 2]),
            _ => self.bytes.extend([0xff; 4]),
        }
    }

    fn length(&mut self, length: usize, width: Width, nullable: bool, of_records: bool) {
        self.lengths.push(LengthMark { position: self.bytes.len(), width, nullable, of_records });
        match width {
            Width::Two => self.bytes.extend(u16::try_from(length).expect("short").to_be_bytes()),
            Width::Four => self.bytes.extend(u32::try_from(length).expect("short").to_be_bytes()),
            Width::Varint => self.varint(length + 1),
        }
    }

    fn varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn raw(&mut self, length: usize) {
        for _ in 0..length {
            let byte = self.random.next() as u8;
            self.bytes.push(byte);
        }
    }
}
