//! Where atomics come from: the standard library, or the model checker `shuttle` under `--cfg shuttle`, which then
//! decides at every access which thread goes on.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// So many null pointers. The memory comes zeroed from the allocator, so that a large table costs no pause: its pages
/// appear as they are touched.
#[cfg(not(shuttle))]
pub(crate) fn null_pointers<T>(count: usize) -> Box<[AtomicPtr<T>]> {
    let zeroed = Box::<[AtomicPtr<T>]>::new_zeroed_slice(count);
    #[expect(unsafe_code, reason = "a large table must not be written once before its use")]
    // SAFETY: `AtomicPtr` has the representation of a raw pointer, for which all zeros is null.
    unsafe {
        zeroed.assume_init()
    }
}

#[cfg(shuttle)]
pub(crate) fn null_pointers<T>(count: usize) -> Box<[AtomicPtr<T>]> {
    (0..count).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect()
}

/// Asks the processor to fetch the cache line at this address; any address will do.
#[inline]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code, reason = "a batch overlaps its cache misses only by prefetching")]
        // SAFETY: a prefetch reads nothing and cannot fault, whatever the address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
