//! Subjects, as Java writes them. All texts are what `X500Principal.getName()` of Java 25 returned.

use std::slice::from_ref;

use crate::certificate_names::{DnError, distinguished_name};

const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;

/// Writes an element of DER.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let header = match len {
        0..0x80 => vec![tag, len as u8],
        0x80..0x100 => vec![tag, 0x81, len as u8],
        _ => vec![tag, 0x82, (len >> 8) as u8, len as u8],
    };
    [header, content.to_vec()].concat()
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    element(0x30, &parts.concat())
}

fn attribute(identifier: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
    sequence(&[element(6, identifier), element(tag, value)])
}

/// The smallest certificate with this subject. Its other parts are empty.
fn certificate(subject: &[u8]) -> Vec<u8> {
    let empty = || sequence(&[]);
    let version = element(0xa0, &element(2, &[2]));
    let signed = sequence(&[version, element(2, &[1]), empty(), empty(), empty(), subject.to_vec(), empty()]);
    sequence(&[signed, empty(), element(3, &[0])])
}

fn text(relative_names: &[&[Vec<u8>]]) -> Result<String, DnError> {
    let names: Vec<_> = relative_names.iter().map(|attributes| element(0x31, &attributes.concat())).collect();
    distinguished_name(&certificate(&sequence(&names)))
}

fn common_name(tag: u8, value: &[u8]) -> Vec<u8> {
    attribute(b"\x55\x04\x03", tag, value)
}

/// A subject with a single attribute.
fn name_of_a() -> Vec<u8> {
    sequence(&[element(0x31, &common_name(UTF8, b"a"))])
}

#[test]
fn subjects_of_real_certificates_are_written_as_java_writes_them() {
    // What `openssl x509 -subject -nameopt RFC2253` prints where it differs:
    // all: CN=a,emailAddress=a@example.org,serialNumber=7,street=Hauptstr. 1,UID=u1,DC=example,DC=org
    // several: UID=z+OU=x+CN=y,O=Example
    // escapes: CN=\  two \ ,O=\ #M\C3\BCller\, S\C3\B6hne\;\"x\"\<y\>\\\+a=b\ (and a blank)
    // unicode: CN=\C3\9Cn\C3\AFcode,O=\E4\BE\8B\E3\81\88
    for (certificate, expected) in [
        (
            include_bytes!("../../../tests/fixtures/certificates/plain.der").as_slice(),
            "CN=orders.example.com,OU=Streaming,O=Example GmbH,L=Berlin,ST=Berlin,C=DE",
        ),
        (
            include_bytes!("../../../tests/fixtures/certificates/all.der"),
            "CN=a,1.2.840.113549.1.9.1=#160d61406578616d706c652e6f7267,2.5.4.5=#130137,\
             STREET=Hauptstr. 1,UID=u1,DC=example,DC=org",
        ),
        (include_bytes!("../../../tests/fixtures/certificates/several.der"), "CN=y+OU=x+UID=z,O=Example"),
        (
            include_bytes!("../../../tests/fixtures/certificates/escapes.der"),
            r#"CN=\ \ two\ \ ,O=\ \#Müller\, Söhne\;\"x\"\<y\>\\\+a\=b\ "#,
        ),
        (include_bytes!("../../../tests/fixtures/certificates/unicode.der"), "CN=Ünïcode,O=例え"),
    ] {
        assert_eq!(distinguished_name(certificate).as_deref(), Ok(expected));
        for len in 0..certificate.len() {
            assert_eq!(distinguished_name(&certificate[..len]), Err(DnError::NotACertificate), "{len}");
        }
        let longer = [certificate, &[0]].concat();
        assert_eq!(distinguished_name(&longer), Err(DnError::NotACertificate));
    }
}

#[test]
fn values_of_every_kind_are_written_as_java_writes_them() {
    for (tag, value, expected) in [
        (UTF8, b"".as_slice(), "CN="),
        (UTF8, b" ", r"CN=\ "),
        (UTF8, b"\r a\r ", "CN=\\\r\\ a\\\r\\ "),
        (UTF8, b"a\0b", r"CN=a\00b"),
        (UTF8, b"a\nb", "CN=a\nb"),
        (UTF8, b"a  b#c=d'(e)", r"CN=a  b\#c\=d'(e)"),
        (0x14, b"abc", "CN=abc"),
        (0x1b, b"abc", "CN=abc"),
        (0x1e, b"\0A\0\xe9", "CN=Aé"),
        (0x1c, b"\0\0\0a", "CN=#1c0400000061"),
        (0x12, b"12", "CN=#12023132"),
        (0x02, b"\x05", "CN=#020105"),
    ] {
        assert_eq!(text(&[&[common_name(tag, value)]]).as_deref(), Ok(expected));
    }
    for (identifier, expected) in [
        (b"\x09".as_slice(), "0.9=#0c0178"),
        (b"\x4f\x05", "1.39.5=#0c0178"),
        (b"\x88\x37\x03", "2.999.3=#0c0178"),
        (
            b"\x69\x83\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
            "2.25.340282366920938463463374607431768211455=#0c0178",
        ),
    ] {
        assert_eq!(text(&[&[attribute(identifier, UTF8, b"x")]]).as_deref(), Ok(expected));
    }
    let organization = attribute(b"\x55\x04\x0a", PRINTABLE, b"o");
    let (a, b) = (common_name(PRINTABLE, b"a"), common_name(PRINTABLE, b"b"));
    assert_eq!(text(&[&[organization, a.clone()]]).as_deref(), Ok("O=o+CN=a"));
    assert_eq!(text(&[&[a], &[b]]).as_deref(), Ok("CN=b,CN=a"));
}

/// Java guesses here, and its versions 17 and 25 guess differently.
#[test]
fn texts_that_are_not_clear_are_refused() {
    let refused = Err(DnError::Characters { attribute: "CN" });
    for (tag, value) in [
        (UTF8, b"a\xffb".as_slice()),
        (UTF8, b"\xed\xa0\x80"),
        (PRINTABLE, b"M\xfcller"),
        (0x14, b"M\xfcller"),
        (0x16, "Müller".as_bytes()),
        (0x1b, b"\xfc"),
        (0x1e, b"\0A\0"),
        (0x1e, b"\xd8\0\0A"),
    ] {
        assert_eq!(text(&[&[common_name(tag, value)]]), refused, "{tag:x}");
    }
}

#[test]
fn malformed_subjects_are_refused() {
    let name = common_name(UTF8, b"a");
    assert_eq!(text(&[]), Err(DnError::Empty));
    assert_eq!(text(&[&[]]), Err(DnError::Malformed));
    for attribute in [
        sequence(&[]),
        sequence(&[element(6, b"\x55\x04\x03")]),
        sequence(&[element(UTF8, b"a"), element(6, b"\x55\x04\x03")]),
        sequence(&[element(6, b"\x55\x04\x03"), element(UTF8, b"a"), element(UTF8, b"b")]),
        attribute(b"", UTF8, b"a"),
        attribute(b"\x55\x84", UTF8, b"a"),
        attribute(b"\x55\x80\x04", UTF8, b"a"),
        attribute(&[[0xff; 30].as_slice(), &[0x7f]].concat(), UTF8, b"a"),
        element(0x31, b""),
        vec![0x30, 0x80, 0, 0],
        vec![0x30],
    ] {
        assert_eq!(text(&[from_ref(&name), from_ref(&attribute)]), Err(DnError::Malformed), "{attribute:x?}");
    }
    assert_eq!(distinguished_name(&certificate(&sequence(&[name]))), Err(DnError::Malformed));
    let long = sequence(&[element(0x31, &common_name(UTF8, &[b'a'; 4_100]))]);
    assert!(matches!(distinguished_name(&certificate(&long)), Err(DnError::TooLong { .. })));
    assert_eq!(distinguished_name(&certificate(&element(0x31, b""))), Err(DnError::NotACertificate));
    let mut parts = vec![sequence(&[]), sequence(&[]), element(3, &[0])];
    assert_eq!(distinguished_name(&sequence(&parts)), Err(DnError::NotACertificate), "nothing is signed");
    parts[0] = sequence(&[element(2, &[1]), sequence(&[]), sequence(&[]), sequence(&[]), name_of_a()]);
    assert_eq!(distinguished_name(&sequence(&parts)).as_deref(), Ok("CN=a"), "version 1");
    parts.push(sequence(&[]));
    assert_eq!(distinguished_name(&sequence(&parts)), Err(DnError::NotACertificate), "one part too many");
}

#[test]
fn no_damaged_certificate_makes_the_parser_panic() {
    let mut state: u64 = 3;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let certificate = include_bytes!("../../../tests/fixtures/certificates/all.der");
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut damaged = certificate.to_vec();
        for _ in 0..=below(4) {
            let at = below(damaged.len().min(300));
            damaged[at] = below(256) as u8;
        }
        if let Ok(subject) = distinguished_name(&damaged) {
            assert!(subject.len() <= 4 * damaged.len());
            accepted += 1;
        }
    }
    assert!((1..20_000).contains(&accepted), "{accepted}");
}
