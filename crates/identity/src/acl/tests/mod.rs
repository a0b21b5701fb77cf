mod check;
mod decisions;
mod doors;
mod indexes;
mod lists;
mod model;

use super::*;

/// Reads a rule: `KIND:NAME PRINCIPAL PERMISSION OPERATION [from HOST]`. A name that ends with `*` is a
/// prefix, except for `*` itself and for subjects. `+` stands for the blank before a queue group.
pub(super) fn acl(text: &str) -> Acl {
    let mut words = text.split(' ');
    let (kind, name) = words.next().unwrap().split_once(':').unwrap();
    let kind = ResourceKind::from_name(kind).unwrap();
    let prefix = name.strip_suffix('*').filter(|prefix| !prefix.is_empty() && kind != ResourceKind::Subject);
    let principal = words.next().unwrap().to_owned();
    let permission = Permission::from_name(words.next().unwrap()).unwrap();
    let operation = Operation::from_name(words.next().unwrap()).unwrap();
    let host = words.nth(1).unwrap_or("*").to_owned();
    Acl {
        kind,
        name: prefix.unwrap_or(name).replace('+', " "),
        pattern: if prefix.is_some() { PatternKind::Prefixed } else { PatternKind::Literal },
        principal,
        host,
        operation,
        permission,
    }
}

pub(super) fn acls(rules: &[&str]) -> Acls {
    let mut acls = Acls::default();
    for rule in rules {
        assert_eq!(acls.insert(acl(rule)), Ok(true), "{rule}");
    }
    acls
}

/// An authorizer with a super user called `root`.
fn authorizer(rules: &[&str], allow_everyone: bool) -> Authorizer {
    Authorizer::new(acls(rules), SuperUsers::parse("User:root").unwrap(), allow_everyone, 1)
}

/// A requester, as `USER` or `USER@ADDRESS`.
fn who(text: &str) -> Requester<'_> {
    match text.split_once('@') {
        Some((user, address)) => Requester { user, address: Some(address.parse().unwrap()) },
        None => Requester { user: text, address: Some([192, 0, 2, 1].into()) },
    }
}

/// A small generator of random numbers: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
