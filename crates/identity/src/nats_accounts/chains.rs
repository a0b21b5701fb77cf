//! Imports that lead to further imports: no message may go in a circle, and none too far.

use std::collections::{BTreeMap, BTreeSet};

use super::definition::{Import, ShareKind};
use super::name::AccountName;
use crate::rules::collide;

/// Maximum number of imports that one message passes. nats-server stops its search after 1,024 accounts;
/// chains of more than a few are mistakes.
pub(super) const CHAIN_MAX: usize = 32;

/// An import, as far as it matters here.
struct Link {
    kind: ShareKind,
    importer: AccountName,
    exporter: AccountName,
    local: Box<[u8]>,
    exported: Box<[u8]>,
}

/// The imports that were accepted. They form no cycle, and no chain is longer than [`CHAIN_MAX`].
///
/// A link leads to another if the other imports, into the exporting account, something that collides with
/// what this one imports from there. That some subject passes all links of a cycle is not asked: each two of
/// them having one in common is enough to refuse.
#[derive(Default)]
pub(super) struct Chains {
    links: Vec<Link>,
    by_importer: BTreeMap<AccountName, Vec<usize>>,
    by_exporter: BTreeMap<AccountName, Vec<usize>>,
}

impl Chains {
    /// Adds an import.
    ///
    /// # Errors
    /// It would close a cycle, or make a chain too long.
    pub(super) fn add(&mut self, importer: &AccountName, import: &Import) -> Result<(), String> {
        let link = Link {
            kind: import.kind,
            importer: importer.clone(),
            exporter: import.account.clone(),
            local: import.local().into(),
            exported: import.exported().into(),
        };
        if link.leads_to(&link) || self.closes_cycle(&link) {
            return Err("import forms a cycle".to_owned());
        }
        let after = self.longest(&link, Chains::after, &mut BTreeMap::new());
        let before = self.longest(&link, Chains::before, &mut BTreeMap::new());
        // The link itself is counted in both.
        if after + before - 1 > CHAIN_MAX {
            return Err(format!("the chain of imports is longer than {CHAIN_MAX}"));
        }
        let at = self.links.len();
        self.by_importer.entry(link.importer.clone()).or_default().push(at);
        self.by_exporter.entry(link.exporter.clone()).or_default().push(at);
        self.links.push(link);
        Ok(())
    }

    /// Returns the links that a link leads to.
    fn after<'a>(&'a self, link: &'a Link) -> Box<dyn Iterator<Item = usize> + 'a> {
        let at = self.by_importer.get(&link.exporter).into_iter().flatten().copied();
        Box::new(at.filter(|at| self.links.get(*at).is_some_and(|next| link.leads_to(next))))
    }

    /// Returns the links that lead to a link.
    fn before<'a>(&'a self, link: &'a Link) -> Box<dyn Iterator<Item = usize> + 'a> {
        let at = self.by_exporter.get(&link.importer).into_iter().flatten().copied();
        Box::new(at.filter(|at| self.links.get(*at).is_some_and(|previous| previous.leads_to(link))))
    }

    /// Reports whether a new link can be reached from itself.
    fn closes_cycle(&self, new: &Link) -> bool {
        let mut seen = BTreeSet::new();
        let mut waiting: Vec<usize> = self.after(new).collect();
        while let Some(at) = waiting.pop() {
            let Some(link) = self.links.get(at) else { continue };
            if link.leads_to(new) {
                return true;
            }
            if seen.insert(at) {
                waiting.extend(self.after(link));
            }
        }
        false
    }

    /// Returns the number of links of the longest chain that begins (or ends) with a link. The recursion is
    /// no deeper than [`CHAIN_MAX`], because accepted chains are not longer.
    fn longest<'a>(
        &'a self,
        link: &'a Link,
        neighbours: fn(&'a Self, &'a Link) -> Box<dyn Iterator<Item = usize> + 'a>,
        known: &mut BTreeMap<usize, usize>,
    ) -> usize {
        let mut longest = 0;
        for at in neighbours(self, link) {
            let length = match (known.get(&at), self.links.get(at)) {
                (Some(length), _) => *length,
                (None, Some(next)) => {
                    let length = self.longest(next, neighbours, known);
                    known.insert(at, length);
                    length
                }
                (None, None) => 0,
            };
            longest = longest.max(length);
        }
        longest + 1
    }
}

impl Link {
    fn leads_to(&self, next: &Self) -> bool {
        self.kind == next.kind && self.exporter == next.importer && collide(&self.exported, &next.local)
    }
}
