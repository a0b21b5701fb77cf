//! Random numbers from the operating system, for ids that must not be guessed or repeated.

use rustix::rand::{GetRandomFlags, getrandom};

/// Sixteen random bytes.
pub fn bytes16() -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        // Without random numbers no id can be given out; Linux has had them since long before this process.
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())
            .expect("the kernel gives random numbers");
    }
    bytes
}

/// A random number.
pub fn u64() -> u64 {
    let bytes = bytes16();
    u64::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]])
}
