//! Arbitrary bytes as rules for names (`ssl.principal.mapping.rules`) and a name for them, separated by a
//! byte 0, and as a certificate, of a Kafka and of a NATS client. Nothing must panic, and the name that comes
//! out must be a legal one. A certificate of a NATS client must not be that of a user whom it does not name.
//!
//! Run: `cargo +nightly fuzz run certificate_name -- -max_len=2048 -rss_limit_mb=512`

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tailrace_identity::certificate_names::{CertificateNames, NatsNames, distinguished_name};
use tailrace_identity::{Check, UserName, Users};

/// Users of every kind of name: with domain components, in another order, and alternative ones.
static USERS: LazyLock<Users> = LazyLock::new(|| {
    let names = [
        "CN=a",
        "O=b,CN=a",
        "CN=a+OU=c",
        "DC=example,DC=org,CN=a",
        "one.example",
        "a@example.org",
        "spiffe://example/app",
    ];
    users(&names.map(|name| format!("[[users]]\nuser = '{name}'\n")).concat()).expect("legal users")
});

fuzz_target!(|data: &[u8]| {
    let default = CertificateNames::parse("DEFAULT").expect("a rule");
    if let Ok(name) = distinguished_name(data) {
        look(&default, &name);
    }
    nats(data);
    let at = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (Ok(rules), Ok(name)) =
        (str::from_utf8(&data[..at]), str::from_utf8(data.get(at + 1..).unwrap_or_default()))
    else {
        return;
    };
    if let Ok(rules) = CertificateNames::parse(rules) {
        look(&rules, name);
        look(&rules, "CN=alice,OU=a\\,b,O=c");
    }
    // As the name of a user.
    let _ = users(&format!("[[users]]\nuser = '{name}'\n"));
});

/// Users who log in with certificates, from a file. `None` if it is not a legal one.
fn users(text: &str) -> Option<Users> {
    let mut users = Users::new([7; 48]);
    users.map_certificates();
    users.read(text).ok().map(|()| users)
}

/// Looks for the user of a NATS client's certificate.
fn nats(certificate: &[u8]) {
    let Ok(names) = NatsNames::read(certificate) else { return };
    let _ = names.subject();
    match USERS.check_certificate(&names, "") {
        None => {}
        Some(Check::Done(found)) => {
            let user = found.expect("no user has a password");
            let name = user.name().expect("a user by name").to_string();
            // Every name of a user has a word that the certificate must have, too.
            let word = ["one.example", "a@example.org", "spiffe://example/app"]
                .into_iter()
                .find(|word| name == *word);
            let word = word.unwrap_or("a").as_bytes();
            assert!(certificate.windows(word.len()).any(|part| part == word), "{name}");
        }
        Some(Check::Slow(_)) => panic!("no password is slow"),
    }
}

fn look(rules: &CertificateNames, name: &str) {
    if let Ok(name) = rules.name(name) {
        assert!(UserName::new(name.as_str()).is_ok());
    }
}
