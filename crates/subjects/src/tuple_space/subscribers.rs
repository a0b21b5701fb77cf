//! The subscribers of one pattern.

use std::sync::Arc;

use super::tree::Tree;

/// The number of a subscription among those of its pattern.
pub(crate) type SubscriberId = u64;

/// The subscribers of a pattern, owned.
pub(crate) enum Subscribers<V> {
    /// No subscribers: the pattern was removed.
    None,
    One(SubscriberId, V),
    Many(Arc<Tree<SubscriberId, V>>),
}

/// The subscribers of a pattern, borrowed.
pub(crate) enum View<'a, V> {
    None,
    One(SubscriberId, &'a V),
    Many(&'a Arc<Tree<SubscriberId, V>>),
}

impl<V> Clone for View<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for View<'_, V> {}

impl<V> Subscribers<V> {
    pub(crate) fn view(&self) -> View<'_, V> {
        match self {
            Self::None => View::None,
            Self::One(id, value) => View::One(*id, value),
            Self::Many(tree) => View::Many(tree),
        }
    }
}

impl<'a, V: Clone> View<'a, V> {
    pub(crate) fn to_owned(self) -> Subscribers<V> {
        match self {
            Self::None => Subscribers::None,
            Self::One(id, value) => Subscribers::One(id, value.clone()),
            Self::Many(tree) => Subscribers::Many(tree.clone()),
        }
    }

    pub(crate) fn is_none(self) -> bool {
        matches!(self, Self::None)
    }

    pub(crate) fn contains(self, id: SubscriberId) -> bool {
        match self {
            Self::None => false,
            Self::One(own, _) => own == id,
            Self::Many(tree) => tree.get(&id).is_some(),
        }
    }

    /// Returns these subscribers and one more, and its new id.
    pub(crate) fn with(self, value: V) -> (Subscribers<V>, SubscriberId) {
        match self {
            Self::None => (Subscribers::One(0, value), 0),
            Self::One(id, first) => {
                let tree = Tree::default().with(id, first.clone()).with(id + 1, value);
                (Subscribers::Many(Arc::new(tree)), id + 1)
            }
            Self::Many(tree) => {
                let id = tree.last_key().map_or(0, |id| id + 1);
                (Subscribers::Many(Arc::new(tree.with(id, value))), id)
            }
        }
    }

    /// Returns these subscribers without one. `None` if it is not among them.
    pub(crate) fn without(self, id: SubscriberId) -> Option<Subscribers<V>> {
        match self {
            Self::None => None,
            Self::One(own, _) => (own == id).then_some(Subscribers::None),
            Self::Many(tree) => {
                let rest = tree.without(&id)?;
                Some(match rest.first() {
                    None => Subscribers::None,
                    Some((id, value)) if rest.len() == 1 => Subscribers::One(*id, value.clone()),
                    Some(_) => Subscribers::Many(Arc::new(rest)),
                })
            }
        }
    }

    /// Calls `f` for each subscriber.
    #[inline]
    pub(crate) fn for_each(self, mut f: impl FnMut(&'a V)) {
        match self {
            Self::None => {}
            Self::One(_, value) => f(value),
            Self::Many(tree) => tree.for_each(|_, value| f(value)),
        }
    }

    pub(crate) fn len(self) -> usize {
        match self {
            Self::None => 0,
            Self::One(..) => 1,
            Self::Many(tree) => tree.len(),
        }
    }
}
