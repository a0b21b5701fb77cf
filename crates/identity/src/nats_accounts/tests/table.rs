//! Where messages go between accounts.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::*;
use crate::rules::collide;

fn name(text: &str) -> AccountName {
    AccountName::new(text).unwrap()
}

fn export(kind: ShareKind, subject: &str, access: ExportAccess) -> Export {
    Export {
        kind,
        subject: subject.into(),
        access,
        response: Response::Singleton,
        response_threshold_ms: None,
        revocations: BTreeMap::new(),
    }
}

fn import(kind: ShareKind, from: &str, exported: &str, local: &str) -> Import {
    let mapping = SubjectMapping::new(exported, local).unwrap();
    let mapping = if kind == ShareKind::Service { mapping.inverse() } else { mapping };
    Import { kind, account: name(from), mapping, share: false, token: None }
}

fn account(text: &str, exports: Vec<Export>, imports: Vec<Import>) -> AccountDefinition {
    AccountDefinition { exports, imports, ..AccountDefinition::new(name(text)) }
}

fn reasons(definitions: Vec<AccountDefinition>) -> Vec<String> {
    AccountTable::build(definitions, 0).1.into_iter().map(|fault| fault.to_string()).collect()
}

use ShareKind::{Service, Stream};

#[test]
fn requests_go_to_the_exporter_under_its_subject() {
    let (table, faults) = AccountTable::build(
        vec![
            account("A", vec![export(Service, "ask.*", ExportAccess::Public)], Vec::new()),
            account("B", Vec::new(), vec![import(Service, "A", "ask.*", "a.$1.ask")]),
        ],
        0,
    );
    assert_eq!(faults, Vec::new());
    let b = table.account("B").unwrap();
    let routes: Vec<_> = b.service_routes(b"a.x.ask").collect();
    assert_eq!(routes.len(), 1);
    assert_eq!((routes[0].subject.as_slice(), routes[0].import.account()), (b"ask.x".as_slice(), &name("A")));
    assert_eq!(routes[0].import.response_threshold_ms(), 120_000);
    assert_eq!(b.service_routes(b"ask.x").count(), 0);
    assert_eq!(table.account("A").unwrap().service_routes(b"ask.x").count(), 0);
}

#[test]
fn subscriptions_hear_the_exporter_as_far_as_they_reach() {
    let (table, faults) = AccountTable::build(
        vec![
            account("A", vec![export(Stream, "news.>", ExportAccess::Public)], Vec::new()),
            account("B", Vec::new(), vec![import(Stream, "A", "news.*.>", "from.$1.a.>")]),
        ],
        0,
    );
    assert_eq!(faults, Vec::new());
    let b = table.account("B").unwrap();
    for (subscription, expected) in [
        (">", Some("news.*.>")),
        ("from.>", Some("news.*.>")),
        ("from.x.a.>", Some("news.x.>")),
        ("from.*.a.y.*", Some("news.*.y.*")),
        ("from.x.a.y", Some("news.x.y")),
        ("*.x.*.y", Some("news.x.y")),
        ("from.x.b.y", None),
        ("from.x.a", None),
        ("news.>", None),
    ] {
        let routes: Vec<_> = b.stream_routes(subscription.as_bytes()).map(|route| route.pattern).collect();
        let expected: Vec<_> = expected.iter().map(|pattern| pattern.as_bytes().to_vec()).collect();
        assert_eq!(routes, expected, "{subscription}");
    }
    let import = &b.streams()[0];
    assert_eq!(import.to_local(b"news.x.y.z").unwrap(), b"from.x.a.y.z");
    assert_eq!(import.to_local(b"other.x.y"), None);
}

#[test]
fn only_those_may_import_whom_the_exporter_has_named() {
    let only_b = ExportAccess::Accounts(BTreeSet::from([name("B")]));
    let with = |access: ExportAccess, importer: &str, subject: &str| {
        reasons(vec![
            account("A", vec![export(Stream, "a.*", access)], Vec::new()),
            account(importer, Vec::new(), vec![import(Stream, "A", subject, subject)]),
        ])
        .join("")
    };
    assert_eq!(with(only_b.clone(), "B", "a.x"), "");
    assert!(with(only_b, "C", "a.x").ends_with("the account exports it to others only"));
    assert!(with(ExportAccess::Public, "B", "b.x").ends_with("the account does not export it"));
    assert!(with(ExportAccess::Public, "B", "a.>").ends_with("the account does not export it"));
    let position = || ExportAccess::TokenPosition(2);
    assert_eq!(with(position(), "B", "a.B"), "");
    // Not even with a wildcard, which would be all accounts.
    for subject in ["a.C", "a.*"] {
        let reason = with(position(), "B", subject);
        assert!(reason.ends_with("word 2 of the subject must be the importing account"), "{subject}");
    }
    assert!(with(ExportAccess::Token, "B", "a.x").ends_with("the import has none"));
}

#[test]
fn what_is_not_there_is_a_fault_and_the_rest_is_in_force() {
    let (table, faults) = AccountTable::build(
        vec![
            account("A", vec![export(Service, "x", ExportAccess::Public)], Vec::new()),
            account(
                "B",
                Vec::new(),
                vec![
                    import(Service, "NONE", "x", "x"),
                    import(Stream, "A", "x", "x"),
                    import(Service, "A", "x", "y"),
                ],
            ),
            account("A", Vec::new(), Vec::new()),
        ],
        0,
    );
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        [
            "account A: it is defined twice",
            "account B: import of the service \"x\" from account NONE: there is no such account",
            "account B: import of the stream \"x\" from account A: the account does not export it",
        ]
    );
    assert_eq!(table.account("B").unwrap().services().len(), 1);
    assert_eq!(table.accounts().len(), 2);
}

#[test]
fn an_account_with_contradicting_exports_shares_nothing() {
    let exports =
        vec![export(Stream, "a.>", ExportAccess::Public), export(Stream, "a.secret", ExportAccess::Token)];
    let definitions = vec![
        account("A", exports, Vec::new()),
        account("B", Vec::new(), vec![import(Stream, "A", "a.secret", "a.secret")]),
    ];
    let (table, faults) = AccountTable::build(definitions, 0);
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert_eq!(table.account("B").unwrap().streams().len(), 0);
}

#[test]
fn importing_the_same_twice_is_a_fault() {
    let twice = || import(Stream, "A", "a", "a");
    let faults = reasons(vec![
        account("A", vec![export(Stream, "a", ExportAccess::Public)], Vec::new()),
        account("B", Vec::new(), vec![twice(), twice()]),
    ]);
    assert!(faults[0].ends_with("it is imported twice"), "{faults:?}");
}

#[test]
fn an_expired_account_exports_nothing_and_the_table_says_when_it_changes() {
    let definitions = || {
        let exporter = account("A", vec![export(Stream, "a", ExportAccess::Public)], Vec::new());
        vec![
            AccountDefinition { expires_at_s: Some(100), ..exporter },
            account("B", Vec::new(), vec![import(Stream, "A", "a", "a")]),
        ]
    };
    let (table, faults) = AccountTable::build(definitions(), 99);
    assert_eq!((table.next_change_at_s(), faults.len()), (Some(100), 0));
    let (table, faults) = AccountTable::build(definitions(), 100);
    assert_eq!((table.next_change_at_s(), faults.len()), (None, 1));
    assert_eq!(table.account("B").unwrap().streams().len(), 0);
}

#[test]
fn there_are_at_most_10_000_accounts() {
    let accounts =
        |count: usize| (0..count).map(|at| AccountDefinition::new(name(&format!("A{at}")))).collect();
    assert_eq!(reasons(accounts(10_000)), Vec::<String>::new());
    assert_eq!(reasons(accounts(10_001)), ["account A10000: there are at most 10000 accounts"]);
}

/// A link between accounts: importer, exporter, local subject, exported subject.
type Link = (usize, usize, &'static str, &'static str);

fn link() -> impl Strategy<Value = Link> {
    let subject = || prop_oneof![Just("a"), Just("b"), Just("a.b"), Just("c")];
    (0..4_usize, 0..4_usize, subject(), subject())
}

/// Searches all paths from a link for one that comes back to it.
fn comes_back(links: &[Link], from: usize, at: usize, seen: &mut Vec<usize>) -> bool {
    (0..links.len()).any(|next| {
        let leads = links[at].1 == links[next].0 && collide(links[at].3.as_bytes(), links[next].2.as_bytes());
        if !leads {
            return false;
        }
        if next == from {
            return true;
        }
        if seen.contains(&next) {
            return false;
        }
        seen.push(next);
        comes_back(links, from, next, seen)
    })
}

proptest! {
    #[test]
    fn cycles_are_found_as_by_a_plain_search(links in prop::collection::vec(link(), 0..10)) {
        let mut plain: Vec<Link> = Vec::new();
        let mut definitions: Vec<_> = (0..4)
            .map(|at| account(&format!("A{at}"), vec![export(Service, ">", ExportAccess::Public)], Vec::new()))
            .collect();
        let mut sorted = links;
        sorted.retain(|link| link.0 != link.1);
        sorted.sort_by_key(|link| link.0);
        sorted.dedup();
        let mut refused = 0;
        let mut known = BTreeSet::new();
        sorted.retain(|link| known.insert(*link));
        for link in &sorted {
            let (importer, exporter, local, exported) = *link;
            definitions[importer].imports.push(import(Service, &format!("A{exporter}"), exported, local));
            plain.push(*link);
            let last = plain.len() - 1;
            if comes_back(&plain, last, last, &mut Vec::new()) {
                plain.pop();
                refused += 1;
            }
        }
        let (table, faults) = AccountTable::build(definitions, 0);
        prop_assert_eq!(faults.len(), refused);
        let accepted: usize = table.accounts().map(|account| account.services().len()).sum();
        prop_assert_eq!(accepted, plain.len());
    }
}
