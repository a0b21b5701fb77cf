//! Requests of a client that means harm: each is refused with an error, and the server goes on.

use serde_json::Value;

use super::{Asker, ON};
use crate::common::TestServer;

/// The error of a request, and its text.
async fn refused(asker: &mut Asker, request: &str, body: &str) -> (u64, String) {
    let answer = asker.api(request, body).await;
    let text = answer["error"]["description"].as_str().unwrap_or_else(|| panic!("not refused: {answer}"));
    (answer["error"]["err_code"].as_u64().unwrap(), text.to_owned())
}

#[tokio::test]
async fn a_configuration_that_is_too_large_is_refused() {
    let server = TestServer::with(&[ON]).await;
    let mut asker = Asker::new(&server).await;
    let many = |count: usize| {
        let subjects: Vec<_> = (0..count).map(|at| format!("\"s.{at}\"")).collect();
        format!("{{\"name\":\"S\",\"subjects\":[{}]}}", subjects.join(","))
    };
    let long =
        |field: &str, bytes: usize| format!("{{\"name\":\"S\",\"{field}\":\"{}\"}}", "x".repeat(bytes));
    let metadata = format!("{{\"name\":\"S\",\"metadata\":{{\"a\":\"{}\"}}}}", "x".repeat(1 << 17));
    for (body, code) in [
        (format!("{{\"name\":\"S\",\"metadata\":{}1{}}}", "[".repeat(50_000), "]".repeat(50_000)), 10025),
        (format!("{}1{}", "{\"a\":".repeat(50_000), "}".repeat(50_000)), 10025),
        (many(80_000), 10025),
        (many(1_001), 10052),
        (long("description", 4_097), 10052),
        (long("no such field", 1_000_000), 10025),
        (metadata, 10052),
        (format!("{{\"name\":\"{}\"}}", "n".repeat(1_000_000)), 10056),
        ("{".to_owned(), 10025),
        ("\u{0}".to_owned(), 10025),
        ("9".repeat(1_000_000), 10025),
    ] {
        assert!(body.len() < 1 << 20, "the server takes the message");
        let (found, text) = refused(&mut asker, "STREAM.CREATE.S", &body).await;
        assert_eq!(found, code, "{} bytes: {text:.200}", body.len());
        assert!(text.len() < 4_096, "an error is no echo: {} bytes", text.len());
    }
    assert_eq!(asker.api("STREAM.NAMES", "").await["total"], 0);
    assert_eq!(asker.api("STREAM.CREATE.S", &many(1_000)).await["did_create"], true);
}

/// A name in a subject is at most as long as a control line.
#[tokio::test]
async fn names_that_no_stream_has_are_refused() {
    let server = TestServer::with(&[ON]).await;
    let mut asker = Asker::new(&server).await;
    let long = "n".repeat(3_000);
    for (name, code) in [(&*long, 10052), (&long[..256], 10052), (&long[..250], 10052), ("a/b", 10128)] {
        let body = format!("{{\"name\":\"{name}\"}}");
        assert_eq!(refused(&mut asker, &format!("STREAM.CREATE.{name}"), &body).await.0, code, "{name}");
        assert_eq!(refused(&mut asker, &format!("STREAM.INFO.{name}"), "").await.0, 10059, "{name}");
    }
    let name = &long[..249];
    let made = asker.api(&format!("STREAM.CREATE.{name}"), &format!("{{\"name\":\"{name}\"}}")).await;
    assert_eq!(made["error"], Value::Null, "{made}");
}

#[tokio::test]
async fn a_read_of_everything_has_bounds() {
    let (_server, mut asker) = super::messages::with_messages(6).await;
    let patterns = |count: usize| {
        let all = vec!["\"a.>\""; count];
        format!("{{\"multi_last\":[{}]}}", all.join(","))
    };
    let many = asker.ask("$JS.API.DIRECT.GET.S", &patterns(1_025)).await;
    assert_eq!(many.headers, "NATS/1.0 408 Bad Request\r\n\r\n");
    let too_many = asker.ask("$JS.API.DIRECT.GET.S", &patterns(2_049)).await;
    assert_eq!(too_many.headers, "NATS/1.0 408 Malformed Request\r\n\r\n");
    for body in [
        r#"{"seq":18446744073709551615}"#,
        r#"{"seq":18446744073709551615,"batch":9223372036854775807}"#,
        r#"{"seq":1,"next_by_subj":"b.>","batch":1}"#,
    ] {
        let answer = asker.ask("$JS.API.DIRECT.GET.S", body).await;
        assert_eq!(answer.headers, "NATS/1.0 404 Message Not Found\r\n\r\n", "{body}");
    }
    for body in [r#"{"seq":-1}"#, r#"{"seq":18446744073709551616}"#, r#"{"last_by_subj":"a..b"}"#] {
        let answer = asker.ask("$JS.API.DIRECT.GET.S", body).await;
        assert!(answer.headers.starts_with("NATS/1.0 40"), "{body}: {answer:?}");
        asker.refusal("STREAM.MSG.GET.S", body).await;
    }
    let info = asker.api("STREAM.INFO.S", r#"{"offset":9223372036854775807,"subjects_filter":">"}"#).await;
    assert_eq!(info["error"], Value::Null, "{info}");
}
