//! The random numbers of the system.
//!
//! A [`World`](tailrace_env::World) supplies the random numbers of the code that runs in it. But std asks the
//! system for the keys of its hash maps, and tokio for the choices of its channels. The iteration order of a
//! map would then differ from run to run. The standard library allows programs to replace getrandom(2), so
//! this module does. Threads outside of a run get the system's numbers.

use std::cell::Cell;

use rustix::io::Errno;
use rustix::rand::GetRandomFlags;

use crate::Rng;

thread_local! {
    /// The seed of the next numbers. `None` in threads outside of a run.
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// From now on, all random numbers of the calling thread follow from `seed`.
pub(crate) fn seed_thread(seed: u64) {
    SEED.set(Some(seed));
    // Nothing else in this crate names the function, but it must be linked.
    std::hint::black_box(getrandom as *const () as usize);
}

/// Replaces the C library's function.
#[expect(unsafe_code, reason = "the C library's function has this name and these parameters")]
#[unsafe(no_mangle)]
extern "C" fn getrandom(buffer: *mut u8, length: usize, flags: u32) -> isize {
    // SAFETY: as with the C library's function, callers own `length` bytes at `buffer`. Zeros initialize
    // them.
    let bytes = unsafe {
        buffer.write_bytes(0, length);
        std::slice::from_raw_parts_mut(buffer, length)
    };
    let given = match SEED.get() {
        Some(seed) => {
            SEED.set(Some(seed.wrapping_add(1)));
            bytes.copy_from_slice(&Rng::new(seed).bytes(length));
            length
        }
        None => system(bytes, flags),
    };
    given.try_into().expect("the length fits into an isize")
}

fn system(bytes: &mut [u8], flags: u32) -> usize {
    loop {
        match rustix::rand::getrandom(&mut *bytes, GetRandomFlags::from_bits_retain(flags)) {
            Ok(given) => return given,
            Err(Errno::INTR) => {}
            Err(error) => panic!("the system has no random numbers: {error}"),
        }
    }
}
