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

    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        self.few.iter().take(self.len).flatten().chain(&self.more).copied()
    }
}
