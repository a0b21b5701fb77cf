//! gzip. Deflate expands one byte to about 1,032 at most.

use std::io::{Read, Write};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::output::{Fault, grow};

/// The initial size of the output.
const FIRST_BYTES: usize = 64 * 1024;

/// Streams into `out`, which doubles as it fills.
pub(super) fn decompress(body: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let mut reader = MultiGzDecoder::new(body);
    let mut filled = 0;
    loop {
        if filled == out.len() {
            grow(out, filled.max(FIRST_BYTES), bytes_max.saturating_add(1));
        }
        match reader.read(&mut out[filled..]) {
            Ok(_) if filled > bytes_max => return Err(Fault::TooLarge),
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) => return Err(Fault::of(&error)),
        }
    }
    out.truncate(filled);
    Ok(())
}

pub(super) fn compress(body: &[u8], level: i32, out: &mut Vec<u8>) {
    let level = match level {
        ..0 => flate2::Compression::default(),
        _ => flate2::Compression::new(level.clamp(1, 9) as u32),
    };
    let mut encoder = GzEncoder::new(out, level);
    let written = encoder.write_all(body).and_then(|()| encoder.try_finish());
    assert!(written.is_ok(), "writing to memory cannot fail");
}
