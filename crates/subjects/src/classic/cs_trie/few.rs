//! A list that needs no allocation while it is short.

/// Up to `N` items in place, the others in a vector.
pub(super) struct Few<T, const N: usize> {
    few: [Option<T>; N],
    len: usize,
    more: Vec<T>,
}

impl<T: Copy, const N: usize> Few<T, N> {
    pub(super) fn new() -> Self {
        Self { few: [None; N], len: 0, more: Vec::new() }
    }

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

    pub(super) fn get(&self, at: usize) -> Option<T> {
        if at >= self.len {
            return None;
        }
        self.few.get(at).copied().unwrap_or_else(|| self.more.get(at - N).copied())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        self.few.iter().take(self.len).flatten().chain(&self.more).copied()
    }
}
