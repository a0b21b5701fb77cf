//! Arbitrary tokens, and arbitrary bodies of claims that are signed as they should be: most of the code lies
//! behind the check of the signature. Nothing may panic. What was read as an account must be one that a table
//! takes, and a user who is let in must be let in again.
//!
//! The first byte chooses. Run: `cargo +nightly fuzz run nats_jwt -- -max_len=4096 -rss_limit_mb=512`

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tailrace_identity::nats_accounts::AccountTable;
use tailrace_identity::nats_accounts::callout::CurveKey;
use tailrace_identity::nats_accounts::jwt::{
    AccountClaims, Connection, ConnectionKind, DeletedAccounts, KeyKind, Nkey, OperatorTrust, SigningKey,
    UserClaims,
};

struct Keys {
    operator: SigningKey,
    account: SigningKey,
    user: SigningKey,
    curve: CurveKey,
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let key = |kind, byte| SigningKey::new(kind, &[byte; 32]).expect("it signs");
    let mut random = [1; 32];
    random[0] = 0;
    Keys {
        operator: key(KeyKind::Operator, 1),
        account: key(KeyKind::Account, 2),
        user: key(KeyKind::User, 3),
        curve: CurveKey::new(random).expect("the bytes differ"),
    }
});

const NOW_S: i64 = 1_800_000_000;

const CONNECTION: Connection =
    Connection { kind: ConnectionKind::Standard, address: None, has_trusted_proxy: false };

/// Signs claims with this body.
fn signed(issuer: &SigningKey, subject: &SigningKey, body: &[u8]) -> String {
    let head =
        format!("{{\"iss\":\"{}\",\"sub\":\"{}\",\"iat\":1,\"nats\":", issuer.public(), subject.public());
    issuer.sign(&[head.as_bytes(), body, b"}"].concat())
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else { return };
    let Keys { operator, account, user, curve } = &*KEYS;
    match choice % 6 {
        0 => {
            let text = String::from_utf8_lossy(data);
            let _ = (UserClaims::read(&text).is_ok(), AccountClaims::read(&text).is_ok());
            let _ = (OperatorTrust::read([&*text]).is_ok(), DeletedAccounts::read(&text).is_ok());
            if let Ok(key) = Nkey::parse(&text) {
                assert_eq!(key.text(), text);
            }
        }
        1 => {
            let _ = OperatorTrust::read([signed(operator, operator, data).as_str()]).is_ok();
            let _ = DeletedAccounts::read(&signed(operator, operator, data)).is_ok();
        }
        2 => {
            let Ok(claims) = AccountClaims::read(&signed(operator, account, data)) else { return };
            let (table, _) = AccountTable::build(vec![claims.definition().clone()], NOW_S);
            assert_eq!(table.accounts().len(), 1);
        }
        3 => {
            let body = br#"{"type":"account","version":2}"#;
            let claims = AccountClaims::read(&signed(operator, account, body)).expect("it is an account");
            let Ok(user) = UserClaims::read(&signed(account, user, data)) else { return };
            let admitted = claims.recheck(&user, CONNECTION, NOW_S);
            assert_eq!(claims.recheck(&user, CONNECTION, NOW_S), admitted);
        }
        4 => {
            // A scope's template.
            let scope = SigningKey::new(KeyKind::Account, &[4; 32]).expect("it signs");
            let head = format!(
                "{{\"type\":\"account\",\"version\":2,\"signing_keys\":[{{\"kind\":\"user_scope\",\"key\":\"{}\",\"template\":",
                scope.public()
            );
            let body = [head.as_bytes(), data, b"}]}"].concat();
            let Ok(claims) = AccountClaims::read(&signed(operator, account, &body)) else { return };
            let body = format!(
                "{{\"type\":\"user\",\"version\":2,\"issuer_account\":\"{}\",\"tags\":[\"a:1\",\"a:2\",\"b:*\"]}}",
                account.public()
            );
            let user = UserClaims::read(&signed(&scope, user, body.as_bytes())).expect("it is a user");
            let _ = claims.recheck(&user, CONNECTION, NOW_S).is_ok();
        }
        _ => {
            let _ = curve.open(curve.public(), data).is_ok();
        }
    }
});
