//! The mistakes of nats-server that became CVEs.

use serde_json::json;

use super::super::jwt::*;
use super::super::*;
use super::vectors::*;

/// CVE-2020-26521: null where an object was expected made the server panic.
#[test]
fn nothing_in_claims_may_be_null_to_crash_the_server() {
    let operator = signing_key(KeyKind::Operator, "operator");
    let account = signing_key(KeyKind::Account, "account");
    for nats in [
        json!({"imports": [null]}),
        json!({"exports": [null]}),
        json!({"signing_keys": [null]}),
        json!({"signing_keys": [{"kind": "user_scope"}]}),
        json!({"signing_keys": [{"kind": "user_scope", "key": null}]}),
        json!({"imports": [{}]}),
        json!({"exports": [{}]}),
        json!({"revocations": {"*": null}}),
        json!({"authorization": {"auth_users": [null]}}),
        json!({"limits": {"conn": null}}),
        json!({"imports": {}}),
        json!([]),
    ] {
        let mut nats = nats;
        if let Some(nats) = nats.as_object_mut() {
            nats.insert("type".to_owned(), "account".into());
            nats.insert("version".to_owned(), 2.into());
        }
        let claims = json!({"iss": operator.public(), "sub": account.public(), "iat": 1, "nats": nats});
        assert!(AccountClaims::read(&forge(&operator, &claims)).is_err(), "{claims}");
    }
    for nats in
        [json!({"times": [null]}), json!({"src": [null]}), json!({"pub": {"allow": [null]}}), json!(null)]
    {
        let mut nats = nats;
        if let Some(nats) = nats.as_object_mut() {
            nats.insert("type".to_owned(), "user".into());
            nats.insert("version".to_owned(), 2.into());
        }
        let claims = json!({"iss": account.public(), "sub": key("user"), "iat": 1, "nats": nats});
        assert!(UserClaims::read(&forge(&account, &claims)).is_err(), "{claims}");
    }
}

/// CVE-2020-26892: revocation and expiry were mixed up.
#[test]
fn a_user_is_revoked_by_the_second_of_issue_whether_the_claims_expire_or_not() {
    let issued = user("plain").issued_at_s();
    let account_key = signing_key(KeyKind::Operator, "operator");
    let revoked = |who: &str, at: i64| {
        let claims = json!({"iss": account_key.public(), "sub": key("account"), "iat": 1,
            "nats": {"type": "account", "version": 2, "revocations": {who: at}}});
        let account = AccountClaims::read(&forge(&account_key, &claims)).unwrap();
        ["plain", "expiring"].map(|name| {
            let user = user(name);
            assert!((user.issued_at_s() - issued).abs() <= 1);
            account.recheck(&user, tcp("10.0.0.1"), now()) == Err(UserDenied::Revoked)
        })
    };
    for who in [key("user"), "*".to_owned()] {
        assert_eq!(revoked(&who, issued - 2), [false, false]);
        assert_eq!(revoked(&who, issued + 2), [true, true]);
        // The second itself is revoked.
        assert!(revoked(&who, issued)[0]);
        assert!(!revoked(&who, issued - 1)[0]);
    }
    assert_eq!(revoked(&key("account"), issued + 2), [false, false]);
    let denied = admit("revoked", "plain", now());
    assert!(denied.is_ok() || denied == Err(UserDenied::Revoked));
    assert!(admit("revoked_all_before", "plain", now()).is_ok());
    assert_eq!(UserDenied::Revoked.closing_text(), "User Authentication Revoked");
}

fn service(from: &str, subject: &str, to: &str) -> Import {
    Import {
        kind: ShareKind::Service,
        account: AccountName::new(from).unwrap(),
        mapping: SubjectMapping::new(subject, to).unwrap().inverse(),
        share: false,
        token: None,
    }
}

fn exporting_all(name: &str, imports: Vec<Import>) -> AccountDefinition {
    let mut account = AccountDefinition::new(AccountName::new(name).unwrap());
    account.exports = vec![Export {
        kind: ShareKind::Service,
        subject: ">".into(),
        access: ExportAccess::Public,
        response: Response::Singleton,
        response_threshold_ms: None,
        revocations: Default::default(),
    }];
    account.imports = imports;
    account
}

/// CVE-2020-28466 and CVE-2022-42709: imports that lead back made the server call itself without end.
#[test]
fn imports_that_lead_back_are_refused() {
    let build = |definitions: Vec<AccountDefinition>| {
        let (_, faults) = AccountTable::build(definitions, 0);
        faults.into_iter().map(|fault| fault.reason).collect::<Vec<_>>()
    };
    let faults = build(vec![
        exporting_all("A", vec![service("B", "x", "x")]),
        exporting_all("B", vec![service("C", "x", "x")]),
        exporting_all("C", vec![service("A", "x", "x")]),
    ]);
    assert_eq!(faults.len(), 1);
    assert!(faults[0].ends_with("import forms a cycle"), "{faults:?}");
    // By way of wildcards.
    let faults = build(vec![
        exporting_all("A", vec![service("B", ">", ">")]),
        exporting_all("B", vec![service("A", "deep.*", "deep.*")]),
    ]);
    assert_eq!(faults.len(), 1, "{faults:?}");
    let faults = build(vec![exporting_all("A", vec![service("A", "x", "y")])]);
    assert!(faults[0].ends_with("an account cannot import from itself"), "{faults:?}");
    // No circle: the subjects differ.
    let faults = build(vec![
        exporting_all("A", vec![service("B", "x", "x")]),
        exporting_all("B", vec![service("A", "y", "y")]),
    ]);
    assert_eq!(faults, Vec::<String>::new());
}

/// CVE-2020-28466: a long chain is as bad as a circle.
#[test]
fn a_chain_of_imports_has_a_bound() {
    let chain = |length: usize| {
        let accounts = (0..=length).map(|at| {
            let imports =
                if at == length { Vec::new() } else { vec![service(&format!("A{:04}", at + 1), "x", "x")] };
            exporting_all(&format!("A{at:04}"), imports)
        });
        AccountTable::build(accounts.collect(), 0).1
    };
    assert_eq!(chain(32), Vec::new());
    let faults = chain(33);
    assert_eq!(faults.len(), 1);
    assert!(faults[0].reason.ends_with("the chain of imports is longer than 32"), "{faults:?}");
    // The stack stays small.
    assert_eq!(chain(5_000).len(), 5_000 / 33);
}

/// CVE-2021-3127: an activation token was not bound to the importer.
#[test]
fn an_activation_token_is_bound_to_exporter_importer_kind_and_subject() {
    let hour = now() + 3600;
    for (importing, exporter, now_s, expected) in [
        ("importing", "main", now(), ""),
        ("importing_key", "main", now(), ""),
        ("expiring_token", "main", hour - 1, ""),
        ("expiring_token", "main", hour, "the activation token has expired or is not valid yet"),
        ("early_token", "main", hour - 1, "the activation token has expired or is not valid yet"),
        ("early_token", "main", hour, ""),
        ("wrong_importer", "main", now(), "the activation token is for another account"),
        ("wrong_kind", "main", now(), "the activation token is for another kind of import"),
        ("wrong_subject", "main", now(), "the activation token is for another subject"),
        ("no_token", "main", now(), "the export requires an activation token, and the import has none"),
        ("importing", "token_revoked", now(), "the activation token was revoked"),
    ] {
        assert_eq!(faults_of(importing, exporter, now_s), expected, "{importing} {exporter}");
    }
    for issuer in ["wrong_exporter", "forged_exporter", "scoped_exporter"] {
        assert_eq!(
            faults_of(issuer, "main", now()),
            "the activation token was not issued by the exporting account or one of its signing keys"
        );
    }
}

/// Returns the reasons why imports are refused, without their beginning.
fn faults_of(importing: &str, exporter: &str, now_s: i64) -> String {
    let definitions = vec![account(importing).definition().clone(), account(exporter).definition().clone()];
    let (table, faults) = AccountTable::build(definitions, now_s);
    let other = table.account(&key("other account")).unwrap();
    assert_eq!(other.streams().len(), 2);
    assert_eq!(other.services().len(), 1 - faults.len());
    faults.iter().map(|fault| fault.reason.rsplit(": ").next().unwrap().to_owned()).collect()
}

/// CVE-2022-24450: the client chose its account. The account of a user is what its issuer says, and that
/// account must know the issuer.
#[test]
fn a_user_cannot_choose_another_account() {
    let user = user("plain");
    let other = account("importing");
    assert_ne!(user.account(), other.id());
    assert_eq!(other.recheck(&user, tcp("10.0.0.1"), now()), Err(UserDenied::Issuer));
    // Its own signature for another account.
    assert_eq!(admit("main", "by_other", now()), Err(UserDenied::Issuer));
}

/// CVE-2023-46129: curve keys of zeros sealed nothing.
#[test]
fn curve_keys_of_zeros_are_refused_on_both_sides() {
    use super::super::callout::*;
    assert!(CurveKey::new([0; 32]).is_none());
    assert!(CurveKey::new([7; 32]).is_none());
    let own = CurveKey::new(seed("curve")).unwrap();
    let mut points = vec![[0; 32], {
        let mut one = [0; 32];
        one[0] = 1;
        one
    }];
    let mut p = [0xff; 32];
    p[31] = 0x7f;
    for low in [0xec, 0xed, 0xee] {
        p[0] = low;
        points.push(p);
        let mut high = p;
        high[31] = 0xff;
        points.push(high);
    }
    for point in points {
        let zero = Nkey::new(KeyKind::Curve, point).text();
        assert_eq!(own.seal(&zero, [1; 24], b"secret"), Err(SealError::Key), "{point:?}");
        assert_eq!(own.open(&zero, &[b"xkv1".as_slice(), &[0; 60]].concat()), Err(SealError::Key));
    }
}
