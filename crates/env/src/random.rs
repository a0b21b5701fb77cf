//! Unpredictable random numbers, for ids that must be unique.

use crate::world::current;

/// Returns sixteen random bytes.
///
/// # Panics
/// If there is no world.
pub fn bytes16() -> [u8; 16] {
    let mut bytes = [0; 16];
    current().fill_random(&mut bytes);
    bytes
}

/// Returns a random number.
///
/// # Panics
/// If there is no world.
pub fn u64() -> u64 {
    let mut bytes = [0; 8];
    current().fill_random(&mut bytes);
    u64::from_be_bytes(bytes)
}
