//! The atomics: those of the standard library, or of the model checker `shuttle` under `--cfg shuttle`, which
//! then decides at every access which thread goes on.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

#[cfg(shuttle)]
pub(crate) use self::modelled::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, choose, seen};

/// Returns this many null pointers. The memory comes zeroed from the allocator, so that a large table costs
/// no pause: its pages appear as they are touched.
#[cfg(not(shuttle))]
pub(crate) fn null_pointers<T>(count: usize) -> Box<[AtomicPtr<T>]> {
    let zeroed = Box::<[AtomicPtr<T>]>::new_zeroed_slice(count);
    #[expect(unsafe_code, reason = "a large table must not be written once before its use")]
    // SAFETY: `AtomicPtr` has the representation of a raw pointer, for which all zeros is null.
    unsafe {
        zeroed.assume_init()
    }
}

/// Returns this many zeros, in the same way.
#[cfg(not(shuttle))]
pub(crate) fn zeros(count: usize) -> Box<[AtomicU64]> {
    let zeroed = Box::<[AtomicU64]>::new_zeroed_slice(count);
    #[expect(unsafe_code, reason = "a large table must not be written once before its use")]
    // SAFETY: `AtomicU64` has the representation of a `u64`.
    unsafe {
        zeroed.assume_init()
    }
}

#[cfg(shuttle)]
pub(crate) fn zeros(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

#[cfg(shuttle)]
pub(crate) fn null_pointers<T>(count: usize) -> Box<[AtomicPtr<T>]> {
    (0..count).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect()
}

/// Atomics of the standard library, with a choice of the model checker before each access. Shuttle's own
/// remember which execution they belong to, but memory that is reclaimed late is freed in a later one.
#[cfg(shuttle)]
mod modelled {
    use std::sync::atomic as plain;

    use self::seen::{lost, won};

    pub(crate) use plain::Ordering;

    /// Lets another thread go on from here.
    pub(crate) fn choose() {
        shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
        seen::step();
    }

    /// What the models have reached: which exchanges have succeeded, which have failed, and because of which
    /// others.
    pub(crate) mod seen {
        use std::cell::RefCell;
        use std::collections::{BTreeMap, HashMap, HashSet};
        use std::panic::Location;

        type Site = &'static Location<'static>;

        /// Statistics of one model; a model has one system thread.
        #[derive(Default)]
        pub(crate) struct Seen {
            pub(crate) runs: u64,
            pub(crate) steps: u64,
            /// Distinct schedules, by a hash of which thread made each step.
            pub(crate) schedules: HashSet<u64>,
            pub(crate) won: BTreeMap<Site, u64>,
            /// Counts by the exchange that failed, and the one that had changed the word before.
            pub(crate) lost: BTreeMap<(Site, Option<Site>), u64>,
            schedule: u64,
            /// In this run: the exchange that last changed each word.
            last: HashMap<usize, Site>,
        }

        thread_local! {
            static SEEN: RefCell<Seen> = RefCell::default();
        }

        pub(super) fn step() {
            let thread = usize::from(shuttle::current::me()) as u64;
            SEEN.with_borrow_mut(|seen| {
                seen.steps += 1;
                seen.schedule = (seen.schedule ^ thread).wrapping_mul(0x0100_0000_01b3).rotate_left(5);
            });
        }

        #[track_caller]
        pub(super) fn won<T>(word: &T, is_exchange: bool) {
            let site = Location::caller();
            SEEN.with_borrow_mut(|seen| {
                seen.last.insert(std::ptr::from_ref(word).addr(), site);
                if is_exchange {
                    *seen.won.entry(site).or_default() += 1;
                }
            });
        }

        #[track_caller]
        pub(super) fn lost<T>(word: &T) {
            let site = Location::caller();
            SEEN.with_borrow_mut(|seen| {
                let by = seen.last.get(&std::ptr::from_ref(word).addr()).copied();
                *seen.lost.entry((site, by)).or_default() += 1;
            });
        }

        pub(crate) fn begin_run() {
            SEEN.with_borrow_mut(|seen| {
                seen.last.clear();
                seen.schedule = 0xcbf2_9ce4_8422_2325;
            });
        }

        pub(crate) fn end_run() {
            SEEN.with_borrow_mut(|seen| {
                seen.runs += 1;
                seen.schedules.insert(seen.schedule);
            });
        }

        pub(crate) fn take() -> Seen {
            SEEN.take()
        }
    }

    macro_rules! modelled {
        ($name:ident $(<$of:ident>)?, $value:ty) => {
            pub(crate) struct $name$(<$of>)?(plain::$name$(<$of>)?);

            #[allow(dead_code, reason = "not every type uses all of them")]
            impl$(<$of>)? $name$(<$of>)? {
                pub(crate) const fn new(value: $value) -> Self {
                    Self(plain::$name::new(value))
                }

                pub(crate) fn get_mut(&mut self) -> &mut $value {
                    self.0.get_mut()
                }

                pub(crate) fn load(&self, order: Ordering) -> $value {
                    choose();
                    self.0.load(order)
                }

                #[track_caller]
                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    choose();
                    won(self, false);
                    self.0.store(value, order);
                }

                #[track_caller]
                pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                    choose();
                    won(self, false);
                    self.0.swap(value, order)
                }

                #[track_caller]
                pub(crate) fn compare_exchange(
                    &self,
                    from: $value,
                    to: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    choose();
                    let result = self.0.compare_exchange(from, to, success, failure);
                    if result.is_ok() { won(self, true) } else { lost(self) }
                    result
                }

                #[track_caller]
                pub(crate) fn fetch_update(
                    &self,
                    set: Ordering,
                    get: Ordering,
                    mut update: impl FnMut($value) -> Option<$value>,
                ) -> Result<$value, $value> {
                    let mut old = self.load(get);
                    while let Some(new) = update(old) {
                        match self.compare_exchange(old, new, set, get) {
                            Ok(old) => return Ok(old),
                            Err(newer) => old = newer,
                        }
                    }
                    Err(old)
                }
            }
        };
    }

    macro_rules! counting {
        ($name:ident, $value:ty: $($method:ident)*) => {
            #[allow(dead_code, reason = "not every type uses all of them")]
            impl $name {
                $(#[track_caller]
                pub(crate) fn $method(&self, value: $value, order: Ordering) -> $value {
                    choose();
                    won(self, false);
                    self.0.$method(value, order)
                })*
            }
        };
    }

    modelled!(AtomicPtr<T>, *mut T);
    modelled!(AtomicU64, u64);
    modelled!(AtomicUsize, usize);
    modelled!(AtomicBool, bool);
    counting!(AtomicU64, u64: fetch_add fetch_sub fetch_or fetch_max);
    counting!(AtomicUsize, usize: fetch_add fetch_sub);

    impl Default for AtomicUsize {
        fn default() -> Self {
            Self::new(0)
        }
    }
}

/// Prefetches the cache line at this address; any address will do.
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
