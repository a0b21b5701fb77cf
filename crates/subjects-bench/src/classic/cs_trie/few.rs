//! A list that needs no allocation while it is short.

/// Up to `N` items in place, the others in a vector.
pub(super) struct Few<T, const N: usize> {
    few: [Option<T>; N],
    len: usize,
    more: Vec<T>,
}

impl<T: Copy, const N: usize> Few<T, N> {
    #[inline]
    pub(super) fn new() -> Self {
        Self { few: [None; N], len: 0, more: Vec::new() }
    }

    #[inline]
    pub(super) fn push(&mut self, item: T) {
        match self.few.get_mut(self.len) {
            Some(place) => *place = Some(item),
            None => self.more.push(item),
        }
        self.len += 1;
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.more.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// By reference: a copy of what was just written in parts would have to wait until it is in the cache.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&T> {
        if at >= self.len {
            return None;
        }
        self.few.get(at).map_or_else(|| self.more.get(at - N), Option::as_ref)
    }

    #[inline]
    pub(super) fn all(&self, mut is_so: impl FnMut(T) -> bool) -> bool {
        let few = &self.few[..self.len.min(N)];
        few.iter().all(|item| item.is_none_or(&mut is_so)) && self.more.iter().all(|item| is_so(*item))
    }
}
