//! All that the process logs, at every level, and how a secret would look in it.

use std::fmt::{self, Write as _};
use std::sync::{LazyLock, Once};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// All lines, of all tests of the process.
static LINES: LazyLock<Mutex<Vec<String>>> = LazyLock::new(Mutex::default);

/// More than all of them.
const BYTES_MAX: usize = 256 << 20;

/// Keeps every event and span of the process, at all levels.
struct Listener;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = write!(self.0, "{}={value} ", field.name());
    }
}

fn keep(metadata: &Metadata<'_>, text: &Text) {
    LINES.lock().push(format!("{} {}", metadata.target(), text.0));
}

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = Text(String::new());
        span.record(&mut text);
        keep(span.metadata(), &text);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, record: &Record<'_>) {
        let mut text = Text("recorded ".to_owned());
        record.record(&mut text);
        LINES.lock().push(text.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        keep(event.metadata(), &text);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Begins to listen to the whole process.
pub(crate) fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| tracing::subscriber::set_global_default(Listener).unwrap());
}

/// Secrets, in every form in which they could be told.
#[derive(Default)]
pub(crate) struct Planted(Vec<String>);

impl Planted {
    /// Adds a secret that is a text.
    pub(crate) fn add(&mut self, secret: &str) {
        self.0.push(secret.to_owned());
        self.add_bytes(secret.as_bytes());
    }

    /// Adds a secret that is bytes: in base64, in hexadecimal, as numbers, and as Rust writes them.
    pub(crate) fn add_bytes(&mut self, secret: &[u8]) {
        assert!(secret.len() >= 8, "a short secret is in many texts");
        let hexadecimal = secret.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let numbers = format!("{secret:?}");
        let signed = format!("{:?}", secret.iter().map(|byte| byte.cast_signed()).collect::<Vec<_>>());
        let trimmed = |text: &str| text.trim_matches(['[', ']']).to_owned();
        self.0.extend([
            STANDARD.encode(secret),
            URL_SAFE_NO_PAD.encode(secret),
            hexadecimal.to_uppercase(),
            hexadecimal,
            trimmed(&numbers),
            trimmed(&signed),
            secret.escape_ascii().to_string(),
        ]);
    }

    /// Returns the secret that a text tells.
    pub(crate) fn told<'a>(&'a self, text: &str) -> Option<&'a str> {
        self.0.iter().find(|secret| text.contains(*secret)).map(String::as_str)
    }

    /// Checks that no text and no line of the log tells a secret, and that a line would be found. `example`
    /// is one of them.
    pub(crate) fn check(&self, texts: &[String], example: &str) {
        for text in texts {
            assert_eq!(self.told(text), None, "{text}");
        }
        let telling = self.telling();
        assert!(telling.is_empty(), "{telling:#?}");
        tracing::trace!(password = example, "a planted fault");
        assert_eq!(self.telling().len(), 1, "the fault is found");
        tracing::trace!("{:?}", bytes::Bytes::copy_from_slice(example.as_bytes()));
        assert_eq!(self.telling().len(), 2, "and so are bytes");
    }

    fn telling(&self) -> Vec<String> {
        let lines = LINES.lock();
        assert!(lines.iter().map(String::len).sum::<usize>() < BYTES_MAX, "too much to keep");
        lines.iter().filter(|line| self.told(line).is_some()).cloned().collect()
    }
}
