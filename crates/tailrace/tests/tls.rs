//! The client verbs over TLS, against a server that demands a certificate of its clients.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use support::{Server, failure, run, run_with, success};

/// An authority in `ca.pem`, and a pair for the server and for a client.
fn write_certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
    for (name, purpose) in
        [("server", ExtendedKeyUsagePurpose::ServerAuth), ("client", ExtendedKeyUsagePurpose::ClientAuth)]
    {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        std::fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

/// Options of the server: its certificate, and `more`.
fn settings(folder: &Path, more: &[(&str, &str)]) -> Vec<String> {
    let path = |name: &str| folder.join(name).display().to_string();
    let files = [
        ("tailrace.tls.certificate.file", path("server.pem")),
        ("tailrace.tls.key.file", path("server.key")),
        ("tailrace.tls.ca.file", path("ca.pem")),
    ];
    let more = more.iter().map(|&(key, value)| (key, value.to_owned()));
    files
        .into_iter()
        .chain(more)
        .flat_map(|(key, value)| ["--set".to_owned(), format!("{key}={value}")])
        .collect()
}

fn start(folder: &Path, more: &[(&str, &str)]) -> Server {
    let settings = settings(folder, more);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    Server::start(&folder.join("data"), &settings)
}

#[test]
fn records_go_in_and_come_out_over_tls_and_only_for_those_with_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let server =
        start(folder.path(), &[("tailrace.kafka.tls", "true"), ("tailrace.tls.client.auth", "required")]);
    let (ca, cert, key) = (path("ca.pem"), path("client.pem"), path("client.key"));
    let tls = ["-b", &server.kafka, "--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key];
    let with = |verb: &[&'static str]| -> Vec<String> {
        verb.iter().map(|&word| word.to_owned()).chain(tls.iter().map(|&word| word.to_owned())).collect()
    };
    let run_tls = |verb: &[&'static str], input: &[u8]| {
        let arguments = with(verb);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        success(run_with(&arguments, input))
    };
    run_tls(&["topic", "create", "t"], b"");
    let lines: String = (0..20_000).map(|number| format!("line {number} with some more text\n")).collect();
    run_tls(&["produce", "t"], lines.as_bytes());
    let found = run_tls(&["consume", "t"], b"");
    assert!(found == lines.as_bytes(), "{} bytes of {}", found.len(), lines.len());

    let timeout = ["--timeout", "2s"];
    let plain = failure(&run(&[&["topic", "list", "-b", &server.kafka][..], &timeout].concat()), 1);
    assert!(plain.contains(&server.kafka), "{plain}");
    let nobody =
        failure(&run(&[&["topic", "list", "-b", &server.kafka, "--tls-ca", &ca][..], &timeout].concat()), 1);
    assert!(nobody.contains("CertificateRequired"), "{nobody}");
    let wrong = failure(&run(&["topic", "list", "-b", &server.kafka, "--tls-ca", &key]), 1);
    assert!(wrong.contains("--tls-ca") && wrong.contains("no certificate"), "{wrong}");
    let alone = failure(&run(&["topic", "list", "--tls-ca", &ca, "--tls-cert", &cert]), 2);
    assert!(alone.contains("--tls-key"), "{alone}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn messages_travel_over_tls_by_upgrade_and_from_the_first_byte() {
    for first in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        write_certificates(folder.path());
        let on = if first { "true" } else { "false" };
        let server = start(
            folder.path(),
            &[("tailrace.nats.tls", "required"), ("tailrace.nats.tls.handshake.first", on)],
        );
        let ca = folder.path().join("ca.pem").display().to_string();
        let tls = if first { &["--tls-ca", &ca, "--tls-first"][..] } else { &["--tls-ca", &ca][..] };
        let with = |verb: &[&'static str]| -> Vec<String> {
            verb.iter().copied().chain(tls.iter().copied()).map(str::to_owned).collect()
        };
        let run = |verb: &[&'static str], input: &[u8]| {
            let arguments = with(verb);
            server.nats(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), input)
        };
        let listening = with(&["sub", "data", "--raw", "-c", "200"]);
        let listener = server.listen(&listening.iter().map(String::as_str).collect::<Vec<_>>());
        let text: Vec<u8> = (0..50_000u32).map(|n| b'a' + u8::try_from(n % 26).unwrap()).collect();
        success(run(&["pub", "data", "--count", "200"], &text));
        let (status, output, _) = listener.end();
        assert_eq!(status, Some(0));
        let found: Vec<u8> = output.into_iter().filter(|byte| *byte != b'\n').collect();
        assert!(found == text.repeat(200), "{} bytes", found.len());

        let without = failure(&server.nats(&["pub", "a", "b", "--timeout", "1s"], b""), 1);
        assert!(without.contains(if first { "no answer" } else { "--tls-ca" }), "{without}");
    }
}

#[test]
fn whoever_asks_for_tls_does_not_go_on_without() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let server = start(folder.path(), &[]);
    let ca = folder.path().join("ca.pem").display().to_string();
    let secret = ["pub", "a", "b", "--user", "u", "--password", "p", "--tls-ca", &ca, "--timeout", "2s"];
    let said = failure(&server.nats(&secret, b""), 1);
    assert!(said.contains("TLS"), "{said}");
}
