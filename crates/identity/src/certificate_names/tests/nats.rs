//! Names among which nats-server looks for a user. The texts are what Go's `crypto/x509` and the `ldap`
//! package of nats-server 2.15.2 made of the same certificates.

use std::sync::Arc;

use crate::certificate_names::{DistinguishedName, NatsNames, NatsNamesError};
use crate::users::{Check, Users};
use crate::{Denied, User};

fn certificate(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/certificates");
    std::fs::read(format!("{folder}/{name}.der")).unwrap()
}

fn names(name: &str) -> NatsNames {
    NatsNames::read(&certificate(name)).unwrap()
}

#[test]
fn alternative_names_come_first_in_the_order_of_their_kinds() {
    let found = names("alternative");
    let expected = ["a@example.org", "b@example.org", "one.example", "two.example", "spiffe://example/app"];
    assert_eq!(found.alternative, expected);
    assert_eq!(found.texts, ["CN=a"]);
    let found = names("nameless");
    assert_eq!(
        (&found.alternative[..], found.subject, found.texts),
        (&["one.example".to_owned()][..], None, vec![])
    );
}

#[test]
fn subjects_are_written_as_go_writes_them() {
    for (name, expected) in [
        ("plain", &["CN=orders.example.com,OU=Streaming,O=Example GmbH,L=Berlin,ST=Berlin,C=DE"][..]),
        (
            "all",
            &[
                "SERIALNUMBER=7,CN=a,STREET=Hauptstr. 1,DC=org,DC=example",
                "SERIALNUMBER=7,CN=a,STREET=Hauptstr. 1",
            ],
        ),
        ("several", &["CN=y,OU=x,O=Example"]),
        ("escapes", &[r#"CN=\  two \ ,O=\ #Müller\, Söhne\;\"x\"\<y\>\\\+a=b\ "#]),
        ("unicode", &["CN=Ünïcode,O=例え"]),
        (
            "components",
            &[
                r"SERIALNUMBER=7,CN=\#x\ ,OU=one+OU=two,O=Example\, Inc,POSTALCODE=1,STREET=s,L=Mitte,ST=Berlin,C=DE,DC=org,DC=example",
                r"SERIALNUMBER=7,CN=\#x\ ,OU=one+OU=two,O=Example\, Inc,POSTALCODE=1,STREET=s,L=Mitte,ST=Berlin,C=DE",
            ],
        ),
    ] {
        assert_eq!(names(name).texts, expected, "{name}");
    }
}

#[test]
fn a_subject_equals_every_text_of_it_and_no_other() {
    let parse = |text: &str| DistinguishedName::parse(text).unwrap_or_else(|| panic!("{text}"));
    let subject = |name: &str| names(name).subject.unwrap();
    let components = r"cn = \#x\20 +SERIALNUMBER=7, ou=two,OU=one,O=Example\, Inc,STREET=s,POSTALCODE=1,L=Mitte,ST=Berlin,C=DE,DC=example,DC=org";
    assert_eq!(parse(components), subject("components"));
    assert_eq!(parse(r#"CN=\  two \ ,O=\ #Müller\, Söhne\;\"x\"<y>\\\+a\=b\ "#), subject("escapes"));
    let turned = parse("O=例え,CN=Ünïcode");
    assert_ne!(turned, subject("unicode"));
    assert_eq!(turned.in_any_order(), subject("unicode").in_any_order());
    for other in ["CN=Ünïcode", "CN=Ünïcode,O=例え,O=例え", "CN=ünïcode,O=例え", "CN=Ünïcode+O=例え"]
    {
        assert_ne!(parse(other).in_any_order(), subject("unicode").in_any_order(), "{other}");
    }
    // Attributes that nats-server does not know: the name is not compared part by part.
    assert_eq!((names("all").subject, names("several").subject), (None, None));
    for text in [
        "",
        "a",
        "CN=",
        "CN=a,",
        "CN=a,O",
        "CN=#41",
        "CN=a\\zz",
        "CN=a\\4",
        "CN=a\\",
        "CN=a+,O=b",
        "X=CN=bob",
        "=a",
    ] {
        assert_eq!(DistinguishedName::parse(text), None, "{text}");
    }
}

#[test]
fn damaged_certificates_have_no_names() {
    for name in ["alternative", "components"] {
        let good = certificate(name);
        for at in 0..good.len() {
            assert_eq!(NatsNames::read(&good[..at]), Err(NatsNamesError::Malformed), "{at}");
            let mut changed = good.clone();
            changed[at] ^= 0xff;
            // Whatever it says, it does not panic.
            let _ = NatsNames::read(&changed);
        }
    }
}

fn users(names: &[(&str, Option<&str>)]) -> Users {
    let mut users = Users::new([7; 48]);
    users.map_certificates();
    let table = |(name, password): &(&str, Option<&str>)| {
        let password = password.map(|text| format!("password = '{text}'\n")).unwrap_or_default();
        format!("[[users]]\nuser = '{name}'\n{password}")
    };
    users.read(&names.iter().map(table).collect::<String>()).unwrap();
    users
}

fn found(users: &Users, name: &str, password: &str) -> Option<Result<Arc<User>, Denied>> {
    match users.check_certificate(&names(name), password)? {
        Check::Done(result) => Some(result),
        Check::Slow(_) => panic!("no password is slow"),
    }
}

fn named(users: &Users, name: &str) -> Option<String> {
    Some(found(users, name, "")?.unwrap().name().unwrap().to_string())
}

#[test]
fn the_first_name_that_is_a_users_counts() {
    let all =
        ["CN=a", "spiffe://example/app", "two.example", "one.example", "b@example.org", "a@example.org"];
    for count in 1..=all.len() {
        let known: Vec<_> = all[..count].iter().map(|name| (*name, None)).collect();
        assert_eq!(named(&users(&known), "alternative").as_deref(), Some(all[count - 1]));
    }
    assert_eq!(named(&users(&[("a", None), ("CN=b", None), ("CN=*", None)]), "alternative"), None);
    // The subject: as it is, in another order, with its domain components, and as Go writes it.
    let order = [
        "SERIALNUMBER=7,CN=a,STREET=Hauptstr. 1",
        "SERIALNUMBER=7,CN=a,STREET=Hauptstr. 1,DC=org,DC=example",
    ];
    assert_eq!(named(&users(&[(order[0], None)]), "all").as_deref(), Some(order[0]));
    assert_eq!(named(&users(&[(order[0], None), (order[1], None)]), "all").as_deref(), Some(order[1]));
    let order = ["O=例え,CN=Ünïcode", "CN = Ünïcode, O=例え"];
    assert_eq!(named(&users(&[(order[0], None)]), "unicode").as_deref(), Some(order[0]));
    assert_eq!(named(&users(&[(order[0], None), (order[1], None)]), "unicode").as_deref(), Some(order[1]));
}

#[test]
fn a_user_with_a_password_must_present_it_too() {
    let known = users(&[("CN=a", Some("sesame"))]);
    assert!(found(&known, "alternative", "sesame").unwrap().is_ok());
    for wrong in ["", "sesam"] {
        assert_eq!(found(&known, "alternative", wrong), Some(Err(Denied::WrongSecret)), "{wrong:?}");
    }
    assert_eq!(found(&users(&[("CN=a", None)]), "alternative", "x"), Some(Err(Denied::WrongSecret)));
}

#[test]
fn a_user_of_a_certificate_has_no_password_that_is_empty() {
    let known = users(&[("CN=a", None)]);
    let credential = crate::Credential::Password { user: "CN=a", password: "" };
    assert!(matches!(known.check(&credential), Check::Done(Err(Denied::Unknown))));
    let error = Users::new([7; 48]).read("[[users]]\nuser = 'CN=a'\n").unwrap_err();
    assert!(error.reason.contains("password: it is missing"), "{error}");
}

#[test]
fn a_key_is_not_the_name_in_a_certificate() {
    let key = "UDVEU3DD4KOFECV66VIHWEZOYX4ZKR3WV27L464SIIPOU2IUI3JCYSJF";
    let mut users = Users::new([7; 48]);
    users.map_certificates();
    users.read(&format!("[[users]]\nnkey = '{key}'\n")).unwrap();
    let names = NatsNames { alternative: vec![key.to_owned()], subject: None, texts: vec![] };
    assert!(users.check_certificate(&names, "").is_none());
}
