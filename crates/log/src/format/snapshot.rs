//! `NNN.snapshot`: sections of state derived from the log, opaque here.
//!
//! Version 1 holds a single section, the state of producers. It is written as long as there is no other
//! section.

use bytes::Bytes;
use tailrace_types::Offset;

use super::bytes::{Writer, i64_at, u32_at};
use super::{FormatError, SECTIONS_VERSION, check_lead, version_of};
use crate::config::SNAPSHOT_BYTES_MAX;
use crate::sections::{PRODUCERS, SECTION_NAME_BYTES_MAX, SECTIONS_MAX, Section, Sections, is_name};

const MAGIC: &[u8; 8] = b"TRPRODS\n";
/// The head of version 1.
const HEAD_BYTES: usize = 32;
/// Bytes before the table of sections, which ends with a checksum of everything before.
const FIXED_BYTES: usize = 24;
const ENTRY_BYTES: usize = SECTION_NAME_BYTES_MAX + 3 * 4;
const HEAD_BYTES_MAX: usize = FIXED_BYTES + SECTIONS_MAX * ENTRY_BYTES + 4;
/// The most bytes of a whole file.
pub(crate) const FILE_BYTES_MAX: u64 = (SNAPSHOT_BYTES_MAX + HEAD_BYTES_MAX) as u64;

/// The only version of the section in files of version 1.
const PRODUCERS_VERSION: u32 = 1;

/// Encodes the head. The content of the sections follows it in the file, one after the other.
pub(crate) fn encode_head(offset: Offset, sections: &Sections) -> Vec<u8> {
    let mut all = sections.iter();
    if let (Some(only), None) = (all.next(), all.next())
        && (only.name.as_str(), only.version) == (PRODUCERS, PRODUCERS_VERSION)
    {
        return Writer::with_lead(MAGIC, HEAD_BYTES)
            .u32(length(only))
            .i64(offset.0)
            .u32(crc32c::crc32c(&only.bytes))
            .sealed();
    }
    let mut out = Writer::with_version(MAGIC, SECTIONS_VERSION, HEAD_BYTES_MAX)
        .u32(u32::try_from(sections.iter().len()).expect("SECTIONS_MAX is far below"))
        .i64(offset.0);
    for section in sections.iter() {
        let end = out.0.len() + SECTION_NAME_BYTES_MAX;
        out = out
            .raw(section.name.as_bytes())
            .zeros_to(end)
            .u32(section.version)
            .u32(length(section))
            .u32(crc32c::crc32c(&section.bytes));
    }
    out.sealed()
}

fn length(section: &Section) -> u32 {
    u32::try_from(section.bytes.len()).expect("SNAPSHOT_BYTES_MAX is far below")
}

/// A section as listed in a head.
struct Listed {
    name: String,
    version: u32,
    bytes: usize,
    crc: u32,
    /// Position of the checksum in the head, for a message.
    crc_at: usize,
}

struct Head {
    offset: i64,
    bytes: usize,
    sections: Vec<Listed>,
}

fn decode_head(file: &[u8]) -> Result<Head, FormatError> {
    if version_of(file, MAGIC)? < SECTIONS_VERSION {
        return decode_first_head(file);
    }
    let short = || FormatError::damaged(0, format!("{} bytes, too short for a head", file.len()));
    let count = file.get(12..FIXED_BYTES).map(|_| u32_at(file, 12) as usize).ok_or_else(short)?;
    if count > SECTIONS_MAX {
        return Err(FormatError::damaged(12, format!("{count} sections, at most {SECTIONS_MAX}")));
    }
    let crc_at = FIXED_BYTES + count * ENTRY_BYTES;
    check_lead(file, MAGIC, crc_at, SECTIONS_VERSION)?;
    let sections =
        file[FIXED_BYTES..crc_at].chunks_exact(ENTRY_BYTES).zip((FIXED_BYTES..).step_by(ENTRY_BYTES));
    let sections = sections.map(|(entry, at)| decode_entry(entry, at)).collect::<Result<Vec<_>, _>>()?;
    for (index, section) in sections.iter().enumerate() {
        if sections[..index].iter().any(|other| other.name == section.name) {
            return Err(FormatError::damaged(12, format!("section {} occurs twice", section.name)));
        }
    }
    Ok(Head { offset: i64_at(file, 16), bytes: crc_at + 4, sections })
}

fn decode_first_head(file: &[u8]) -> Result<Head, FormatError> {
    check_lead(file, MAGIC, 28, SECTIONS_VERSION)?;
    let producers = Listed {
        name: PRODUCERS.to_owned(),
        version: PRODUCERS_VERSION,
        bytes: u32_at(file, 12) as usize,
        crc: u32_at(file, 24),
        crc_at: 24,
    };
    Ok(Head { offset: i64_at(file, 16), bytes: HEAD_BYTES, sections: vec![producers] })
}

fn decode_entry(entry: &[u8], at: usize) -> Result<Listed, FormatError> {
    let (name, numbers) = entry.split_at(SECTION_NAME_BYTES_MAX);
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    if !is_name(name) {
        return Err(FormatError::damaged(at as u64, "a section without a name"));
    }
    Ok(Listed {
        name: String::from_utf8_lossy(name).into_owned(),
        version: u32_at(numbers, 0),
        bytes: u32_at(numbers, 4) as usize,
        crc: u32_at(numbers, 8),
        crc_at: at + SECTION_NAME_BYTES_MAX + 8,
    })
}

/// Decodes the sections of a whole file, including those that this build does not know. One damaged section
/// invalidates the others, because an older file has all of them as of one offset.
pub(crate) fn decode(file: &Bytes, offset: Offset) -> Result<Sections, FormatError> {
    let head = decode_head(&file[..file.len().min(HEAD_BYTES_MAX)])?;
    let bytes: usize = head.sections.iter().map(|section| section.bytes).sum();
    if head.offset != offset.0 || file.len() != head.bytes + bytes {
        let reason = format!("head names offset {} and {bytes} bytes", head.offset);
        return Err(FormatError::damaged(12, reason));
    }
    let (mut sections, mut at) = (Sections::default(), head.bytes);
    for Listed { name, version, bytes, crc, crc_at } in head.sections {
        let content = file.slice(at..at + bytes);
        at += bytes;
        if crc32c::crc32c(&content) != crc {
            return Err(FormatError::damaged(crc_at as u64, format!("wrong checksum of section {name}")));
        }
        sections = sections.with(&name, version, content);
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(offset: Offset, sections: &Sections) -> Vec<u8> {
        let mut bytes = encode_head(offset, sections);
        sections.iter().for_each(|section| bytes.extend_from_slice(&section.bytes));
        bytes
    }

    fn several() -> Sections {
        Sections::of(PRODUCERS, 1, &b"table"[..]).with("subjects", 7, &b""[..]).with("x.y-2", 2, &b"more"[..])
    }

    #[test]
    fn the_state_of_producers_alone_is_a_file_of_version_1() {
        let sections = Sections::of(PRODUCERS, 1, &b"table"[..]);
        let bytes = file(Offset(9), &sections);
        let mut expected = b"TRPRODS\n\x01\0\0\0\x05\0\0\0\x09\0\0\0\0\0\0\0".to_vec();
        expected.extend(crc32c::crc32c(b"table").to_le_bytes());
        expected.extend(crc32c::crc32c(&expected).to_le_bytes());
        expected.extend(b"table");
        assert_eq!(bytes, expected);
        assert_eq!(decode(&bytes.into(), Offset(9)), Ok(sections));
    }

    #[test]
    fn sections_come_back_also_those_that_nobody_knows() {
        let others = Sections::of("subjects", 1, &b"s"[..]);
        let newer = Sections::of(PRODUCERS, 2, &b"table"[..]);
        for sections in [Sections::default(), several(), others, newer] {
            let bytes = file(Offset(9), &sections);
            assert_eq!(bytes[8], 3);
            assert_eq!(decode(&bytes.into(), Offset(9)), Ok(sections));
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        let bytes = file(Offset(9), &several());
        assert_eq!(bytes[..24], *b"TRPRODS\n\x03\0\0\0\x03\0\0\0\x09\0\0\0\0\0\0\0");
        let mut second = b"subjects".to_vec();
        second.resize(24, 0);
        second.extend(b"\x07\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(bytes[60..96], second);
        assert_eq!(bytes.len(), 24 + 3 * 36 + 4 + 5 + 4);
        assert!(bytes.ends_with(b"tablemore"));
    }

    #[test]
    fn a_flipped_bit_a_missing_byte_or_one_more_is_noticed() {
        for sections in [Sections::of(PRODUCERS, 1, &b"table"[..]), several()] {
            let bytes = file(Offset(9), &sections);
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << bit;
                    let found = decode(&damaged.into(), Offset(9));
                    assert!(matches!(found, Err(FormatError::Damaged(..))), "{at}.{bit}: {found:?}");
                }
                assert!(decode(&Bytes::copy_from_slice(&bytes[..at]), Offset(9)).is_err(), "{at}");
            }
            let longer = [&bytes[..], &[0]].concat();
            assert!(decode(&longer.into(), Offset(9)).is_err());
            assert!(decode(&bytes.into(), Offset(8)).is_err());
        }
    }

    #[test]
    fn a_newer_version_is_refused_by_its_number() {
        let mut bytes = file(Offset(9), &several());
        bytes[8] = 4;
        let crc = crc32c::crc32c(&bytes[..132]).to_le_bytes();
        bytes[132..136].copy_from_slice(&crc);
        assert_eq!(decode(&bytes.into(), Offset(9)), Err(FormatError::Newer(4)));
    }
}
