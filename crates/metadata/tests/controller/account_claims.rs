//! The claims of NATS accounts: the newest of each account is kept, within bounds.

use tailrace_identity::nats_accounts::jwt::{KeyKind, Nkey, SigningKey};
use tailrace_metadata::*;

use crate::cluster_rig::Rig;

fn operator() -> SigningKey {
    SigningKey::new(KeyKind::Operator, &[7; 32]).expect("it signs")
}

/// The public key of an account.
fn account(number: u32) -> String {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    Nkey::new(KeyKind::Account, bytes).text()
}

/// Claims of an account that were issued at a time, with some letters for its name.
fn claims(number: u32, issued_at_s: i64, name: &str) -> String {
    let operator = operator();
    let json = format!(
        r#"{{"iss":"{}","sub":"{}","iat":{issued_at_s},"name":"{name}","nats":{{"type":"account","version":2}}}}"#,
        operator.public(),
        account(number),
    );
    operator.sign(json.as_bytes())
}

fn store(token: &str) -> Command {
    Command::StoreAccountClaims { token: token.to_owned() }
}

fn delete(signer: &SigningKey, subject: &str, accounts: &[String], issued_at_s: i64) -> Command {
    let accounts = accounts.join("\",\"");
    let json = format!(
        r#"{{"iss":"{}","sub":"{subject}","iat":{issued_at_s},"nats":{{"version":2,"accounts":["{accounts}"]}}}}"#,
        signer.public(),
    );
    Command::DeleteAccountClaims { token: signer.sign(json.as_bytes()) }
}

fn stored(rig: &Rig) -> Vec<(String, i64, String)> {
    let image = rig.image();
    let claims = image.access().account_claims().values();
    claims.map(|claims| (claims.account.clone(), claims.issued_at_s, claims.token.to_string())).collect()
}

#[test]
fn the_newest_claims_of_an_account_are_kept() {
    let mut rig = Rig::alone();
    let (first, second) = (claims(1, 100, "a"), claims(1, 101, "b"));
    assert_eq!(rig.run(&store(&first)), Ok(1));
    assert_eq!(rig.run(&store(&first)), Ok(0), "the same again changes nothing");
    let before = rig.image().access().version();
    assert_eq!(rig.run(&store(&second)), Ok(1));
    assert!(rig.image().access().version() > before, "decisions are asked again");
    assert_eq!(
        rig.refusal(&store(&first)),
        format!("The claims of account {} are older than those that are stored.", account(1))
    );
    assert_eq!(stored(&rig), [(account(1), 101, second)]);
    // Of the same second: times have no smaller unit.
    let same = claims(1, 101, "c");
    assert_eq!(rig.run(&store(&same)), Ok(1));
    assert_eq!(stored(&rig), [(account(1), 101, same)]);
}

#[test]
fn a_token_that_is_none_or_was_changed_is_refused() {
    let mut rig = Rig::alone();
    let token = claims(1, 100, "a");
    for wrong in ["", "a.b.c", &token[..token.len() - 1], &token.replace('.', "..")] {
        assert!(rig.run(&store(wrong)).is_err(), "{wrong}");
        assert!(rig.run(&Command::DeleteAccountClaims { token: wrong.to_owned() }).is_err(), "{wrong}");
    }
    assert!(rig.run(&Command::DeleteAccountClaims { token }).is_err());
    assert_eq!(stored(&rig), []);
}

#[test]
fn a_request_deletes_what_was_issued_before_it_only() {
    let mut rig = Rig::alone();
    for (number, issued_at_s) in [(1, 100), (2, 200), (3, 100)] {
        rig.run(&store(&claims(number, issued_at_s, "a"))).unwrap();
    }
    let operator = operator();
    let request = delete(&operator, operator.public(), &[account(1), account(2), account(4)], 150);
    assert_eq!(rig.run(&request), Ok(1));
    let left: Vec<_> = stored(&rig).into_iter().map(|(account, ..)| account).collect();
    let mut expected = vec![account(2), account(3)];
    expected.sort();
    assert_eq!(left, expected);
    // Somebody sends it again, after the account was stored again.
    rig.run(&store(&claims(1, 151, "again"))).unwrap();
    assert_eq!(rig.run(&request), Ok(0));
    // Not signed for itself.
    assert!(rig.run(&delete(&operator, &account(1), &[account(3)], 150)).is_err());
    let other = SigningKey::new(KeyKind::Operator, &[8; 32]).unwrap();
    assert!(rig.run(&delete(&operator, other.public(), &[account(3)], 150)).is_err());
}

#[test]
fn claims_have_bounds() {
    let mut rig = Rig::alone();
    let long = "x".repeat(700_000);
    let mut number = 0;
    let refused = loop {
        number += 1;
        match rig.run(&store(&claims(number, 1, &long))) {
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
    };
    assert!(
        refused.starts_with("The claims of all accounts would have more than 67108864 bytes"),
        "{refused}"
    );
    assert_eq!(number, 72);
    // Shorter ones in place of long ones make room.
    assert_eq!(rig.run(&store(&claims(1, 2, ""))), Ok(1));
    assert_eq!(rig.run(&store(&claims(number, 1, &long))), Ok(1));
}

#[test]
fn there_are_claims_of_at_most_10_000_accounts() {
    // The signature of records is not asked, so that this is quick.
    let records: Vec<_> = (0..10_000)
        .map(|number| {
            let token = format!("token {number}").into();
            MetadataRecord::AccountClaims(StoredAccountClaims {
                account: account(number),
                issued_at_s: 1,
                token,
            })
        })
        .collect();
    let mut rig = Rig::replay(&[], &records);
    let refused = rig.refusal(&store(&claims(10_000, 1, "a")));
    assert_eq!(refused, "There are claims of 10000 accounts already; delete those of other accounts first.");
    assert_eq!(rig.run(&store(&claims(9_999, 1, "a"))), Ok(1));
}

#[test]
fn records_are_read_as_they_were_written_and_damaged_ones_are_refused() {
    let stored = StoredAccountClaims { account: account(1), issued_at_s: 5, token: "a.b.c".into() };
    let text = format!(
        r#"{{"version":4,"type":"account-claims","account":"{}","issued_at":5,"token":"a.b.c"}}"#,
        account(1)
    );
    let removed = format!(r#"{{"version":4,"type":"account-claims-removed","account":"{}"}}"#, account(1));
    for (record, text) in [
        (MetadataRecord::AccountClaims(stored), &text),
        (MetadataRecord::AccountClaimsRemoved { account: account(1) }, &removed),
    ] {
        assert_eq!(String::from_utf8(record.encode()).unwrap(), *text);
        assert_eq!(MetadataRecord::decode(text.as_bytes()), Ok(record));
        let older = text.replacen("\"version\":4", "\"version\":3", 1);
        assert!(MetadataRecord::decode(older.as_bytes()).is_err());
        assert!(MetadataRecord::decode(text.replacen(&account(1), "A", 1).as_bytes()).is_err());
    }
    let long = text.replacen("a.b.c", &"a".repeat((1 << 20) + 1), 1);
    assert!(MetadataRecord::decode(long.as_bytes()).is_err());
    let mut rig = Rig::alone();
    let (older, newer) = (text.replacen(":5", ":4", 1), text);
    let record = |text: &str| MetadataRecord::decode(text.as_bytes()).unwrap();
    assert!(rig.contradiction(&record(&removed)).contains("which do not exist"));
    rig = Rig::replay(&[], &[record(&newer)]);
    assert!(rig.contradiction(&record(&older)).contains("by older ones"));
}

#[test]
fn a_snapshot_leads_to_the_same_claims() {
    let mut rig = Rig::alone();
    rig.run(&store(&claims(1, 100, "a"))).unwrap();
    rig.run(&store(&claims(2, 100, "b"))).unwrap();
    let again = Rig::replay(&[], &rig.controller.snapshot_records());
    assert_eq!(again.image().access(), rig.image().access());
}
