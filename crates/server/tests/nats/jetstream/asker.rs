//! A plain client that asks JetStream's API.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::common::TestServer;
use crate::common::nats::{Raw, Said};

/// The setting without which there is no API.
pub(crate) const ON: (&str, &str) = ("tailrace.jetstream.enable", "true");

/// The next reply subject. All nodes of a cluster deliver to it, so no two connections may have the same.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// One connection.
pub(crate) struct Asker {
    raw: Raw,
}

/// A message that came as an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) headers: String,
    pub(crate) payload: String,
}

impl Asker {
    /// Connects with these options, as parts of JSON.
    pub(crate) async fn with(server: &TestServer, options: &str) -> Self {
        let mut raw = Raw::to(server.nats()).await;
        let more = if options.is_empty() { String::new() } else { format!(",{options}") };
        raw.send(format!("CONNECT {{\"verbose\":false,\"headers\":true,\"no_responders\":true{more}}}\r\n"))
            .await;
        raw.send("SUB inbox.* 1\r\n").await;
        let said = raw.sync().await;
        assert!(said.iter().all(|said| !matches!(said, Said::Error(_))), "{said:?}");
        Self { raw }
    }

    pub(crate) async fn new(server: &TestServer) -> Self {
        Self::with(server, "").await
    }

    /// Publishes a request, and returns the subject of its answers.
    pub(crate) async fn publish(&mut self, subject: &str, headers: &str, body: &str) -> String {
        let reply = format!("inbox.{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let text = match headers {
            "" => format!("PUB {subject} {reply} {}\r\n{body}\r\n", body.len()),
            block => {
                let all = block.len() + body.len();
                format!("HPUB {subject} {reply} {} {all}\r\n{block}{body}\r\n", block.len())
            }
        };
        self.raw.send(text).await;
        reply
    }

    /// Returns the next answer.
    pub(crate) async fn answer(&mut self, reply: &str) -> Answered {
        loop {
            match self.raw.next().await.expect("the connection is open") {
                Said::Message { subject, headers, payload, .. } if subject == reply => {
                    return Answered {
                        headers: String::from_utf8(headers.unwrap_or_default()).expect("text"),
                        payload: String::from_utf8(payload).expect("text"),
                    };
                }
                Said::Error(error) => panic!("{error}"),
                _ => {}
            }
        }
    }

    /// One request and its answer.
    pub(crate) async fn ask(&mut self, subject: &str, body: &str) -> Answered {
        let reply = self.publish(subject, "", body).await;
        self.answer(&reply).await
    }

    /// One request to the API, whose answer is JSON.
    pub(crate) async fn api(&mut self, suffix: &str, body: &str) -> Value {
        let answered = self.ask(&format!("$JS.API.{suffix}"), body).await;
        assert_eq!(answered.headers, "", "{answered:?}");
        serde_json::from_str(&answered.payload).expect("JSON")
    }

    /// The code of the error with which a request is answered.
    pub(crate) async fn refusal(&mut self, suffix: &str, body: &str) -> u64 {
        let answer = self.api(suffix, body).await;
        answer["error"]["err_code"].as_u64().unwrap_or_else(|| panic!("not refused: {answer}"))
    }

    /// Reports whether a request gets no answer: neither a message nor a status. What was published before
    /// and after it is answered meanwhile.
    pub(crate) async fn is_ignored(&mut self, subject: &str) -> bool {
        let reply = self.publish(subject, "", "").await;
        self.api("STREAM.NAMES", "").await;
        let next = self.raw.next_within(Duration::from_millis(50)).await;
        !matches!(next, Some(Some(Said::Message { subject, .. })) if subject == reply)
    }

    /// Everything that the server says before it answers a PING.
    pub(crate) async fn sync(&mut self) -> Vec<Said> {
        self.raw.sync().await
    }

    /// Sends text as it is.
    pub(crate) async fn send(&mut self, text: &str) {
        self.raw.send(text).await;
    }

    /// Returns the server's next message.
    pub(crate) async fn next(&mut self) -> Said {
        self.raw.next().await.expect("the connection is open")
    }
}
