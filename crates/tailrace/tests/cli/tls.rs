//! The client verbs over TLS, against a server that demands a client certificate.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use crate::support::{Server, failure, run, run_with, success};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

/// Writes an authority to `ca.pem`, and key pairs for the server and a client.
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

#[test]
fn records_go_in_and_come_out_over_tls_and_only_for_those_with_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let settings = [
        ("tailrace.kafka.tls", "true".to_owned()),
        ("tailrace.tls.client.auth", "required".to_owned()),
        ("tailrace.tls.certificate.file", path("server.pem")),
        ("tailrace.tls.key.file", path("server.key")),
        ("tailrace.tls.ca.file", path("ca.pem")),
    ];
    let settings: Vec<String> =
        settings.iter().flat_map(|(key, value)| ["--set".to_owned(), format!("{key}={value}")]).collect();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = Server::start(&folder.path().join("data"), &settings);
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

/// The flags that set these keys.
fn flags(settings: &[(&str, String)]) -> Vec<String> {
    settings.iter().flat_map(|(key, value)| ["--set".to_owned(), format!("{key}={value}")]).collect()
}

#[test]
fn nats_verbs_speak_tls_before_and_after_info() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (ca, cert, key) = (path("ca.pem"), path("client.pem"), path("client.key"));
    for first in ["false", "true"] {
        let settings = flags(&[
            ("tailrace.nats.tls", "required".to_owned()),
            ("tailrace.nats.tls.handshake.first", first.to_owned()),
            ("tailrace.tls.client.auth", "required".to_owned()),
            ("tailrace.tls.certificate.file", path("server.pem")),
            ("tailrace.tls.key.file", path("server.key")),
            ("tailrace.tls.ca.file", path("ca.pem")),
        ]);
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let server = Server::start(&folder.path().join(format!("data-{first}")), &settings);
        let mut tls = vec!["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key];
        tls.extend((first == "true").then_some("--tls-first"));
        let listener = server.listen(&[&["sub", "a.>", "--raw", "-c", "20001"], &tls[..]].concat());
        let lines: String =
            (0..20_000).map(|number| format!("line {number} with some more text\n")).collect();
        success(server.nats(&[&["pub", "a.b", "--lines"], &tls[..]].concat(), lines.as_bytes()));
        let large = vec![b'x'; 1_000_000];
        success(server.nats(&[&["pub", "a.c"], &tls[..]].concat(), &large));
        let output = listener.end().1;
        assert!(output == [lines.as_bytes(), &large, b"\n"].concat(), "{} bytes", output.len());
        let plain = failure(&server.nats(&["pub", "a", "x", "--timeout", "500ms"], b""), 1);
        let word = if first == "true" { "speaks TLS" } else { "--tls-ca" };
        assert!(plain.contains(word), "{plain}");
        let nobody = failure(&server.nats(&[&["pub", "a", "x"], &tls[..2], &tls[6..]].concat(), b""), 1);
        assert!(nobody.contains("CertificateRequired"), "{nobody}");
    }
}

#[test]
fn tls_that_is_asked_for_is_never_left_out() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let server = Server::start(&folder.path().join("data"), &[]);
    let ca = folder.path().join("ca.pem").display().to_string();
    let error = failure(&server.nats(&["pub", "a", "x", "--tls-ca", &ca], b""), 1);
    assert!(error.contains("the server does not support it"), "{error}");
    // Nor if its file does not exist.
    let missing = ["--tls-ca", "/nope"];
    for output in [
        run(&[&["topic", "list", "-b", &server.kafka], &missing[..]].concat()),
        server.nats(&[&["pub", "a", "x"], &missing[..]].concat(), b""),
        run(&[&["top", "--once", "-m", &server.http], &missing[..]].concat()),
    ] {
        let error = failure(&output, 1);
        assert!(error.contains("cannot use /nope (--tls-ca): "), "{error}");
    }
}

#[test]
fn top_reads_monitoring_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let settings = flags(&[
        ("tailrace.http.tls", "true".to_owned()),
        ("tailrace.tls.certificate.file", path("server.pem")),
        ("tailrace.tls.key.file", path("server.key")),
    ]);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = Server::start(&folder.path().join("data"), &settings);
    let top = ["top", "--once", "--interval", "100ms", "-m", &server.http];
    let page = success(run(&[&top[..], &["--tls-ca", &path("ca.pem")]].concat()));
    assert!(String::from_utf8_lossy(&page).contains("0 connections"));
    failure(&run(&top), 1);
}
