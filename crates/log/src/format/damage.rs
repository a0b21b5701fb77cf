//! `damage`: the known damage of a log.

use std::path::{Path, PathBuf};

use tailrace_types::Offset;

use super::bytes::{Writer, i64_at, u32_at, u64_at};
use super::{FormatError, check_sealed};
use crate::damage::{DAMAGED_RANGES_MAX, Damage, DamagedRange};

const MAGIC: &[u8; 8] = b"TRDAMAG\n";
const HEAD_BYTES: usize = 16;
/// Fixed-width fields of one range.
const RANGE_BYTES: usize = 32;
/// The most bytes of a file name or a reason. Longer ones are truncated.
const TEXT_BYTES_MAX: usize = 512;

/// The most bytes of a file.
pub(crate) const BYTES_MAX: u64 =
    (HEAD_BYTES + DAMAGED_RANGES_MAX * (RANGE_BYTES + 2 * TEXT_BYTES_MAX) + 4) as u64;

pub(crate) fn encode(ranges: &[DamagedRange]) -> Vec<u8> {
    let ranges = &ranges[..ranges.len().min(DAMAGED_RANGES_MAX)];
    let mut out = Writer::with_lead(MAGIC, HEAD_BYTES).u32(ranges.len() as u32);
    for range in ranges {
        let name = range.damage.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (name, reason) = (cut(&name), cut(&range.damage.reason));
        out = out
            .i64(range.base_offset.0)
            .i64(range.end_offset.0)
            .u64(range.damage.position)
            .u32(u32::from(range.is_lost))
            .u16(name.len() as u16)
            .u16(reason.len() as u16)
            .raw(name.as_bytes())
            .raw(reason.as_bytes());
    }
    out.sealed()
}

/// Returns the ranges in a whole file. `dir` is the partition's folder.
pub(crate) fn decode(file: &[u8], dir: &Path) -> Result<Vec<DamagedRange>, FormatError> {
    check_sealed(file, MAGIC)?;
    let short = || FormatError::damaged(file.len() as u64, "it ends early");
    let end = file.len().checked_sub(4).filter(|end| *end >= HEAD_BYTES).ok_or_else(short)?;
    let (mut at, mut ranges) = (HEAD_BYTES, Vec::new());
    for _ in 0..u32_at(file, 12) {
        let head = file[..end].get(at..at + RANGE_BYTES).ok_or_else(short)?;
        let name_end = RANGE_BYTES + usize::from(super::bytes::u16_at(head, 28));
        let text_end = name_end + usize::from(super::bytes::u16_at(head, 30));
        let whole = file[..end].get(at..at + text_end).ok_or_else(short)?;
        let text = |from: usize, upto: usize| String::from_utf8_lossy(&whole[from..upto]).into_owned();
        let name = text(RANGE_BYTES, name_end);
        ranges.push(DamagedRange {
            base_offset: Offset(i64_at(head, 0)),
            end_offset: Offset(i64_at(head, 8)),
            damage: Damage {
                file: Path::new(&name)
                    .file_name()
                    .map_or_else(|| dir.to_owned(), |name| dir.join(PathBuf::from(name))),
                position: u64_at(head, 16),
                reason: text(name_end, text_end),
            },
            is_lost: u32_at(head, 24) & 1 != 0,
        });
        at += text_end;
    }
    Ok(ranges)
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::super::resealed;
    use super::*;

    fn ranges() -> Vec<DamagedRange> {
        let damage =
            |name: &str| Damage { file: Path::new("/d").join(name), position: 7, reason: "wrong".to_owned() };
        let lost =
            DamagedRange { is_lost: true, ..DamagedRange::found(Offset(9), Offset(12), damage("0.1.log")) };
        vec![DamagedRange::found(Offset(1), Offset(2), damage("0.log")), lost]
    }

    #[test]
    fn ranges_come_back_and_no_part_of_them_does() {
        let bytes = encode(&ranges());
        assert_eq!(decode(&bytes, Path::new("/d")), Ok(ranges()));
        for at in 0..bytes.len() {
            assert!(decode(&bytes[..at], Path::new("/d")).is_err(), "{at} bytes");
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert!(decode(&flipped, Path::new("/d")).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_newer_version_is_refused() {
        let newer = resealed(encode(&ranges()), 9);
        assert_eq!(decode(&newer, Path::new("/d")), Err(FormatError::Newer(9)));
    }
}
