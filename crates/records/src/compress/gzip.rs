//! gzip. Deflate expands a byte to at most about 1,032.

use std::io::{Read, Write};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::Fault;

/// Streams into `out`, which grows by doubling as bytes arrive.
pub(super) fn decompress(body: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let mut reader = MultiGzDecoder::new(body).take(bytes_max as u64 + 1);
    reader.read_to_end(out).map_err(|error| Fault::of(&error))?;
    if out.len() > bytes_max { Err(Fault::TooLarge) } else { Ok(()) }
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
