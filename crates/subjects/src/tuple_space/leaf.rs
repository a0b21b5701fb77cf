//! One version of one pattern: its text and its subscribers in one allocation, immutable except for its
//! stamp.
//!
//! A leaf's `meta` word says when its version started. The first thread that meets the leaf decides this,
//! after the leaf can be reached. The word goes through these states, with one compare-and-swap per
//! transition:
//!
//! ```text
//! Fresh ------------> Stamped(time)                        a pattern that was not there before
//! Replaces(leaf) ---> Stamped(time)                        no snapshot needs the version before
//!               \---> Kept(history) ---> Stamped(time)     a snapshot needs it; later none does any more
//! ```
#![expect(unsafe_code, reason = "text and header share one allocation; the reclamation scheme frees it")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::clock::Time;
use super::epoch::{Guard, Life, free_box};
use super::overflow::Overflow;
use super::subscribers::{SubscriberId, Subscribers, View};
use super::sync::{AtomicPtr, Ordering};
use super::tree::Tree;

/// What a leaf holds, owned.
pub(crate) enum Content<V> {
    /// The subscribers of its pattern.
    Subscribers(Subscribers<V>),
    /// All patterns that are kept in the overflow; see [`super::overflow`].
    Overflow(Arc<Overflow<V>>),
}

/// What a leaf holds, borrowed.
pub(crate) enum Held<'a, V> {
    Subscribers(View<'a, V>),
    Overflow(&'a Arc<Overflow<V>>),
}

impl<V> From<Subscribers<V>> for Content<V> {
    fn from(subscribers: Subscribers<V>) -> Self {
        Self::Subscribers(subscribers)
    }
}

impl<V> Content<V> {
    pub(crate) fn held(&self) -> Held<'_, V> {
        match self {
            Self::Subscribers(subscribers) => Held::Subscribers(subscribers.view()),
            Self::Overflow(overflow) => Held::Overflow(overflow),
        }
    }
}

impl<'a, V> Held<'a, V> {
    /// The subscribers of a pattern. The overflow has none: it holds patterns.
    #[inline]
    pub(crate) fn view(self) -> View<'a, V> {
        match self {
            Self::Subscribers(view) => view,
            Self::Overflow(_) => View::None,
        }
    }
}

impl<V: Clone> Held<'_, V> {
    pub(crate) fn into_content(self) -> Content<V> {
        match self {
            Self::Subscribers(view) => Content::Subscribers(view.to_owned()),
            Self::Overflow(overflow) => Content::Overflow(overflow.clone()),
        }
    }
}

/// Older versions that snapshots still need, newest first.
pub(crate) struct History<V> {
    /// When the version that carries this history started.
    pub(crate) stamp: Time,
    pub(crate) older: Vec<(Time, Content<V>)>,
    pub(crate) life: Life,
}

/// The decoded meta word of a leaf.
pub(crate) enum Meta<'g, V> {
    Fresh,
    Stamped(Time),
    Replaces(LeafRef<'g, V>),
    Kept(&'g History<V>),
}

#[repr(C)]
pub(crate) struct Leaf<V> {
    meta: AtomicPtr<()>,
    /// Bits 0 to 15: bytes of text; 16 and 17: kind of body; the rest: subscriber id, if there is one
    /// subscriber.
    packed: u64,
    body: Body<V>,
    life: Life,
    // The text follows.
}

union Body<V> {
    none: (),
    one: ManuallyDrop<V>,
    many: ManuallyDrop<Arc<Tree<SubscriberId, V>>>,
    overflow: ManuallyDrop<Arc<Overflow<V>>>,
}

const KIND_NONE: u64 = 0;
const KIND_ONE: u64 = 1;
const KIND_MANY: u64 = 2;
const KIND_OVERFLOW: u64 = 3;
const LENGTH_BITS: u32 = 16;
const ID_SHIFT: u32 = 18;
/// 2^46. An id is one more than the largest live one of its pattern. A pattern whose oldest subscriber leaves
/// and a new one comes, a million times a second, reaches the limit after two years. Ids start again when the
/// pattern has no or one short-lived subscriber.
const ID_MAX: SubscriberId = (1 << (64 - ID_SHIFT)) - 1;

const STAMPED: usize = 0b01;
const KEPT: usize = 0b10;
const STATE_MASK: usize = 0b11;

/// A leaf that a guard of the lifetime `'g` protects.
pub(crate) struct LeafRef<'g, V> {
    leaf: NonNull<Leaf<V>>,
    guard: PhantomData<&'g Leaf<V>>,
}

impl<V> Clone for LeafRef<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for LeafRef<'_, V> {}

impl<V: 'static> Leaf<V> {
    fn layout(text_bytes: usize) -> Layout {
        let text = Layout::array::<u8>(text_bytes).expect("a text has at most 65,535 bytes");
        let (layout, offset) = Layout::new::<Self>().extend(text).expect("a leaf has less than 2^63 bytes");
        debug_assert_eq!(offset, size_of::<Self>());
        layout
    }

    /// Allocates a leaf, either `Fresh` or replacing another.
    ///
    /// # Panics
    /// The text has more than 65,535 bytes, or the id more than 46 bits.
    pub(crate) fn allocate(text: &[u8], content: impl Into<Content<V>>, replaces: *mut Self) -> *mut Self {
        let (kind, id, body) = match content.into() {
            Content::Subscribers(Subscribers::None) => (KIND_NONE, 0, Body { none: () }),
            Content::Subscribers(Subscribers::One(id, value)) => {
                (KIND_ONE, id, Body { one: ManuallyDrop::new(value) })
            }
            Content::Subscribers(Subscribers::Many(tree)) => {
                (KIND_MANY, 0, Body { many: ManuallyDrop::new(tree) })
            }
            Content::Overflow(overflow) => (KIND_OVERFLOW, 0, Body { overflow: ManuallyDrop::new(overflow) }),
        };
        assert!(text.len() >> LENGTH_BITS == 0, "a pattern has at most 65,535 bytes");
        assert!(id <= ID_MAX, "a subscriber id has at most 46 bits");
        let packed = text.len() as u64 | kind << LENGTH_BITS | id << ID_SHIFT;
        let leaf = Self { meta: AtomicPtr::new(replaces.cast()), packed, body, life: Life::begin() };
        let layout = Self::layout(text.len());
        // SAFETY: the layout is that of a leaf and its text, so not of size zero; both parts are written
        // within it.
        unsafe {
            let memory = alloc(layout);
            if memory.is_null() {
                handle_alloc_error(layout);
            }
            memory.cast::<Self>().write(leaf);
            ptr::copy_nonoverlapping(text.as_ptr(), memory.add(size_of::<Self>()), text.len());
            memory.cast()
        }
    }

    /// Frees a leaf with all that it owns.
    ///
    /// # Safety
    /// It came from [`Leaf::allocate`], no other thread can reach it or will, and it is freed once.
    pub(crate) unsafe fn free(leaf: *mut Self) {
        // SAFETY: the caller owns the leaf; the kind says which field of the body was written.
        unsafe {
            let meta = *(*leaf).meta.get_mut();
            if meta.addr() & STATE_MASK == KEPT {
                free_box(Box::from_raw(meta.map_addr(|bits| bits & !STATE_MASK).cast::<History<V>>()));
            }
            match (*leaf).packed >> LENGTH_BITS & 3 {
                KIND_ONE => ManuallyDrop::drop(&mut (*leaf).body.one),
                KIND_MANY => ManuallyDrop::drop(&mut (*leaf).body.many),
                KIND_OVERFLOW => ManuallyDrop::drop(&mut (*leaf).body.overflow),
                _ => {}
            }
            let layout = Self::layout((*leaf).packed as usize & 0xffff);
            ptr::drop_in_place(&raw mut (*leaf).life);
            #[cfg(shuttle)]
            super::epoch::bury(move || dealloc(leaf.cast(), layout));
            #[cfg(not(shuttle))]
            dealloc(leaf.cast(), layout);
        }
    }

    /// It is handed over to the reclamation scheme.
    pub(crate) fn is_retired(&self) {
        self.life.is_retired();
    }
}

impl<'g, V> LeafRef<'g, V> {
    /// # Safety
    /// `leaf` is a leaf that is not freed while `'g` lasts.
    #[inline]
    pub(crate) unsafe fn new(leaf: *mut Leaf<V>) -> Option<Self> {
        NonNull::new(leaf).map(|leaf| Self { leaf, guard: PhantomData })
    }

    pub(crate) fn as_ptr(self) -> *mut Leaf<V> {
        self.leaf.as_ptr()
    }

    #[inline]
    fn get(self) -> &'g Leaf<V> {
        // SAFETY: a `LeafRef` is made of a leaf that lives as long as `'g`; only its meta word changes, which
        // is atomic.
        let leaf = unsafe { &*self.leaf.as_ptr() };
        leaf.life.is_used();
        leaf
    }

    /// It was reached through a slot.
    pub(crate) fn is_reached(self, guard: &Guard) {
        self.get().life.is_reached(guard);
    }

    /// The pattern's text.
    #[inline]
    pub(crate) fn text(self) -> &'g [u8] {
        // SAFETY: `allocate` wrote this many bytes of text after the header, within the same allocation, and
        // nothing writes to them later.
        unsafe {
            let text = self.leaf.as_ptr().cast::<u8>().add(size_of::<Leaf<V>>());
            std::slice::from_raw_parts(text, self.get().packed as usize & 0xffff)
        }
    }

    /// The subscribers of the pattern.
    #[inline]
    pub(crate) fn view(self) -> View<'g, V> {
        self.held().view()
    }

    #[inline]
    pub(crate) fn held(self) -> Held<'g, V> {
        let leaf = self.get();
        // SAFETY: the kind says which field of the body `allocate` wrote; the body does not change.
        unsafe {
            match leaf.packed >> LENGTH_BITS & 3 {
                KIND_NONE => Held::Subscribers(View::None),
                KIND_ONE => Held::Subscribers(View::One(leaf.packed >> ID_SHIFT, &leaf.body.one)),
                KIND_MANY => Held::Subscribers(View::Many(&leaf.body.many)),
                _ => Held::Overflow(&leaf.body.overflow),
            }
        }
    }

    #[inline]
    pub(crate) fn meta(self) -> Meta<'g, V> {
        self.parse(self.get().meta.load(Ordering::SeqCst))
    }

    #[inline]
    fn parse(self, meta: *mut ()) -> Meta<'g, V> {
        match meta.addr() & STATE_MASK {
            STAMPED => Meta::Stamped((meta.addr() >> 2) as Time),
            KEPT => {
                // SAFETY: a history lives until the word has moved on and all guards of that moment have
                // ended.
                let history = unsafe { &*meta.map_addr(|bits| bits & !STATE_MASK).cast::<History<V>>() };
                history.life.is_used();
                Meta::Kept(history)
            }
            // SAFETY: the replaced leaf is retired only after this word has moved on.
            _ => unsafe { LeafRef::new(meta.cast()) }.map_or(Meta::Fresh, Meta::Replaces),
        }
    }

    /// Moves from `Fresh` or `Replaces` to `Stamped`. Returns false if another thread has decided.
    pub(crate) fn decide(self, from: &Meta<'_, V>, stamp: Time) -> bool {
        self.exchange(undecided(from), stamped(stamp))
    }

    /// Moves from `Replaces` to `Kept`. Returns the history if another thread has decided.
    pub(crate) fn keep(self, from: &Meta<'_, V>, history: History<V>) -> Result<(), History<V>> {
        let raw = Box::into_raw(Box::new(history));
        if self.exchange(undecided(from), raw.cast::<()>().map_addr(|bits| bits | KEPT)) {
            return Ok(());
        }
        // SAFETY: the box was made above, and the failed exchange has not published it.
        Err(*unsafe { Box::from_raw(raw) })
    }

    /// Moves from `Kept` to `Stamped`. Returns the history, which must be freed once no thread reads it any
    /// more.
    pub(crate) fn forget(self) -> Option<*mut History<V>> {
        let meta = self.get().meta.load(Ordering::Acquire);
        let Meta::Kept(history) = self.parse(meta) else { return None };
        let done = self.exchange(meta, stamped(history.stamp));
        done.then(|| meta.map_addr(|bits| bits & !STATE_MASK).cast())
    }

    #[cfg_attr(shuttle, track_caller)]
    fn exchange(self, from: *mut (), to: *mut ()) -> bool {
        self.get().meta.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

fn stamped(stamp: Time) -> *mut () {
    ptr::without_provenance_mut((stamp as usize) << 2 | STAMPED)
}

fn undecided<V>(meta: &Meta<'_, V>) -> *mut () {
    match meta {
        Meta::Replaces(leaf) => leaf.as_ptr().cast(),
        Meta::Fresh => ptr::null_mut(),
        Meta::Stamped(_) | Meta::Kept(_) => unreachable!("the stamp is decided already"),
    }
}
