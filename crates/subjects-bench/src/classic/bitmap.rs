//! Bitmaps over the columns of a table, and the columns: one per subscription.

use std::collections::HashMap;

use tailrace_subjects::Pattern;

use super::{ClassicSubscription, Entry};

/// Set bits in ascending order, 64 to a block. Blocks without a bit take no space. Columns are assigned from
/// 0 on, so most bits are set after the last one, at constant cost.
#[derive(Clone, Debug, Default)]
pub(super) struct Bitmap {
    /// Block number and bits, by number; no block is zero.
    blocks: Vec<(u32, u64)>,
}

impl Bitmap {
    pub(super) fn set(&mut self, column: u32) {
        let (number, bit) = (column / 64, 1 << (column % 64));
        match self.find(number) {
            Ok(at) => self.blocks[at].1 |= bit,
            Err(at) => self.blocks.insert(at, (number, bit)),
        }
    }

    pub(super) fn clear(&mut self, column: u32) {
        let Ok(at) = self.find(column / 64) else { return };
        self.blocks[at].1 &= !(1 << (column % 64));
        if self.blocks[at].1 == 0 {
            self.blocks.remove(at);
        }
    }

    fn find(&self, number: u32) -> Result<usize, usize> {
        match self.blocks.last() {
            Some((last, _)) if *last < number => Err(self.blocks.len()),
            Some((last, _)) if *last == number => Ok(self.blocks.len() - 1),
            _ => self.blocks.binary_search_by_key(&number, |(number, _)| *number),
        }
    }

    pub(super) fn contains(&self, column: u32) -> bool {
        self.find(column / 64).is_ok_and(|at| self.blocks[at].1 & (1 << (column % 64)) != 0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The set columns, ascending.
    pub(super) fn columns(&self) -> impl Iterator<Item = u32> {
        self.blocks.iter().flat_map(|(number, bits)| {
            let mut left = *bits;
            std::iter::from_fn(move || {
                let column = (left != 0).then(|| number * 64 + left.trailing_zeros())?;
                left &= left - 1;
                Some(column)
            })
        })
    }

    /// The union of both.
    pub(super) fn union(&self, other: &Self) -> Self {
        let mut union = Self { blocks: Vec::with_capacity(self.blocks.len() + other.blocks.len()) };
        let (mut left, mut right) = (self.blocks.as_slice(), other.blocks.as_slice());
        while let ([(a, a_bits), ..], [(b, b_bits), ..]) = (left, right) {
            let number = *a.min(b);
            let bits = if *a == number { *a_bits } else { 0 } | if *b == number { *b_bits } else { 0 };
            union.blocks.push((number, bits));
            left = &left[usize::from(*a == number)..];
            right = &right[usize::from(*b == number)..];
        }
        union.blocks.extend_from_slice(left);
        union.blocks.extend_from_slice(right);
        union
    }

    /// Keeps only the bits that are also set in one of the two rows.
    pub(super) fn keep(&mut self, row: &Self, other: &Self) {
        let (mut row, mut other) = (Seek::new(row), Seek::new(other));
        self.blocks.retain_mut(|(number, bits)| {
            *bits &= row.bits_of(*number) | other.bits_of(*number);
            *bits != 0
        });
    }
}

/// Looks up block numbers in ascending order.
struct Seek<'a> {
    left: &'a [(u32, u64)],
}

impl<'a> Seek<'a> {
    fn new(bitmap: &'a Bitmap) -> Self {
        Self { left: &bitmap.blocks }
    }

    fn bits_of(&mut self, number: u32) -> u64 {
        // In small tables it is nearly always the next block. Large ones are worth a search.
        if self.left.first().is_some_and(|(first, _)| *first < number) {
            let passed = match self.left.get(1) {
                Some((second, _)) if *second < number => {
                    self.left.partition_point(|(first, _)| *first < number)
                }
                _ => 1,
            };
            self.left = &self.left[passed..];
        }
        match self.left.first() {
            Some((first, bits)) if *first == number => *bits,
            _ => 0,
        }
    }
}

/// One column per subscription. A column that is released is reused first.
#[derive(Debug)]
pub(super) struct Columns<V> {
    columns: Vec<Option<(Pattern, Entry<V>)>>,
    free: Vec<u32>,
    by_id: HashMap<u64, u32>,
}

impl<V> Columns<V> {
    pub(super) fn new() -> Self {
        Self { columns: Vec::new(), free: Vec::new(), by_id: HashMap::new() }
    }

    pub(super) fn add(&mut self, subscription: &ClassicSubscription, value: V) -> u32 {
        let column = match self.free.pop() {
            Some(column) => column,
            None => {
                self.columns.push(None);
                u32::try_from(self.columns.len() - 1).expect("fewer than 2^32 subscriptions")
            }
        };
        let entry = Entry { id: subscription.id, value };
        self.columns[column as usize] = Some((subscription.pattern.clone(), entry));
        self.by_id.insert(subscription.id, column);
        column
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<u32> {
        let column = self.by_id.remove(&id)?;
        self.columns[column as usize] = None;
        self.free.push(column);
        Some(column)
    }

    /// Pattern and value of a column whose bit is set.
    pub(super) fn get(&self, column: u32) -> (&Pattern, &V) {
        let (pattern, entry) = self.columns[column as usize].as_ref().expect("a set bit has a subscription");
        (pattern, &entry.value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Pattern, &V)> {
        self.columns.iter().flatten().map(|(pattern, entry)| (pattern, &entry.value))
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }
}
