//! Arbitrary bytes as rules for names (`ssl.principal.mapping.rules`) and a name for them, separated by a
//! byte 0, and as a certificate. Nothing must panic, and the name that comes out must be a legal one.
//!
//! Run: `cargo +nightly fuzz run certificate_name -- -max_len=2048 -rss_limit_mb=512`

#![no_main]

use libfuzzer_sys::fuzz_target;
use tailrace_identity::UserName;
use tailrace_identity::certificate_names::{CertificateNames, distinguished_name};

fuzz_target!(|data: &[u8]| {
    let default = CertificateNames::parse("DEFAULT").expect("a rule");
    if let Ok(name) = distinguished_name(data) {
        look(&default, &name);
    }
    let at = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (Ok(rules), Ok(name)) = (str::from_utf8(&data[..at]), str::from_utf8(data.get(at + 1..).unwrap_or_default()))
    else {
        return;
    };
    if let Ok(rules) = CertificateNames::parse(rules) {
        look(&rules, name);
        look(&rules, "CN=alice,OU=a\\,b,O=c");
    }
});

fn look(rules: &CertificateNames, name: &str) {
    if let Ok(name) = rules.name(name) {
        assert!(UserName::new(name.as_str()).is_ok());
    }
}
