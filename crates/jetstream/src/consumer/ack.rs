//! The subjects and payloads of acknowledgements.

use super::names::Names;
use super::output::Delivery;
use crate::go::parse_duration;

const PREFIX: &str = "$JS.ACK.";

impl Names {
    /// Appends the reply subject of a delivery (version 1, nine words). Clients send acknowledgements to it.
    pub fn write_reply(&self, delivery: &Delivery, subject: &mut Vec<u8>) {
        subject.extend_from_slice(PREFIX.as_bytes());
        subject.extend_from_slice(self.stream.as_bytes());
        subject.push(b'.');
        subject.extend_from_slice(self.consumer.as_bytes());
        for number in numbers(delivery) {
            subject.push(b'.');
            write_number(number, subject);
        }
    }

    /// Returns the length of what [`Names::write_reply`] appends.
    pub(super) fn reply_len(&self, delivery: &Delivery) -> u64 {
        let digits: usize =
            numbers(delivery).into_iter().map(|n| n.checked_ilog10().unwrap_or(0) as usize + 2).sum();
        (PREFIX.len() + self.stream.len() + 1 + self.consumer.len() + digits) as u64
    }
}

fn numbers(delivery: &Delivery) -> [u64; 5] {
    let timestamp = u64::try_from(delivery.timestamp_ns).unwrap_or(0);
    let Delivery { stream_seq, consumer_seq, deliveries, pending, .. } = *delivery;
    [u64::from(deliveries), stream_seq, consumer_seq, timestamp, pending]
}

fn write_number(mut number: u64, text: &mut Vec<u8>) {
    let start = text.len();
    loop {
        text.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text[start..].reverse();
}

/// What the subject of an acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckSubject<'a> {
    /// The domain of version 2; `_` there stands for none.
    pub domain: Option<&'a str>,
    /// The stream.
    pub stream: &'a str,
    /// The consumer.
    pub consumer: &'a str,
    /// How often the message had been delivered.
    pub deliveries: u64,
    /// The message.
    pub stream_seq: u64,
    /// The delivery's number.
    pub consumer_seq: u64,
}

impl<'a> AckSubject<'a> {
    /// Parses a subject of version 1 (nine words) or 2 (eleven or more). `None` for anything else. The number
    /// of deliveries, the timestamp and the pending count are only for the client, and are not checked.
    pub fn parse(subject: &'a str) -> Option<Self> {
        let words = subject.split('.').count();
        let is_v2 = words >= 11;
        if words != 9 && !is_v2 {
            return None;
        }
        let mut rest = subject.strip_prefix(PREFIX)?.split('.');
        let domain = if is_v2 {
            let domain = rest.next()?;
            // The account's hash.
            rest.next()?;
            (domain != "_").then_some(domain)
        } else {
            None
        };
        let (stream, consumer) = (rest.next()?, rest.next()?);
        let deliveries = number(rest.next()?).unwrap_or(0);
        let (stream_seq, consumer_seq) = (number(rest.next()?)?, number(rest.next()?)?);
        Some(Self { domain, stream, consumer, deliveries, stream_seq, consumer_seq })
    }
}

fn number(word: &str) -> Option<u64> {
    // `parse` would take a plus sign.
    word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok()).flatten()
}

/// What the payload of an acknowledgement says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AckKind<'a> {
    Ack,
    /// With a delay: not before it has passed.
    Nak {
        delay_ns: Option<i64>,
    },
    Progress,
    Term {
        reason: &'a str,
    },
    /// An acknowledgement, and a pull request.
    Next {
        request: &'a [u8],
    },
    /// Nothing that nats-server knows: it answers, and does nothing.
    Unknown,
}

/// A reason longer than this is cut, as it goes into an advisory.
const REASON_BYTES_MAX: usize = 4096;

impl<'a> AckKind<'a> {
    pub(super) fn parse(payload: &'a [u8]) -> Self {
        match payload {
            b"" | b"+ACK" | b"+OK" => return Self::Ack,
            b"+WPI" => return Self::Progress,
            _ => {}
        }
        if let Some(request) = payload.strip_prefix(b"+NXT") {
            return Self::Next { request };
        }
        if let Some(delay) = payload.strip_prefix(b"-NAK") {
            return Self::Nak { delay_ns: delay_ns(delay.trim_ascii()) };
        }
        if let Some(reason) = payload.strip_prefix(b"+TERM") {
            let reason = reason.get(..REASON_BYTES_MAX).unwrap_or(reason).trim_ascii();
            let valid = match str::from_utf8(reason) {
                Ok(reason) => reason,
                // The part before the damage: a reason is only told on.
                Err(error) => {
                    str::from_utf8(reason.get(..error.valid_up_to()).unwrap_or_default()).unwrap_or_default()
                }
            };
            return Self::Term { reason: valid };
        }
        Self::Unknown
    }
}

/// Reads the delay of a NAK. What cannot be read counts as none, as in nats-server.
fn delay_ns(text: &[u8]) -> Option<i64> {
    if text.first() == Some(&b'{') {
        let options: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(text).ok()?;
        let delay = options.iter().find(|(name, _)| name.eq_ignore_ascii_case("delay"));
        return delay.map_or(Some(0), |(_, delay)| delay.as_i64());
    }
    if text.is_empty() {
        return None;
    }
    str::from_utf8(text).ok().and_then(parse_duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery() -> Delivery {
        Delivery {
            to: "inbox".into(),
            stream_seq: 12,
            consumer_seq: 100,
            deliveries: 2,
            timestamp_ns: 1_700_000_000_123_456_789,
            pending: 0,
            headers_only: false,
            pin: None,
            is_last: false,
        }
    }

    #[test]
    fn a_reply_subject_has_nine_words_and_comes_back_as_it_was() {
        let names = Names { stream: "ORDERS".into(), consumer: "c1".into() };
        let mut subject = Vec::new();
        names.write_reply(&delivery(), &mut subject);
        let text = str::from_utf8(&subject).expect("it is text");
        assert_eq!(text, "$JS.ACK.ORDERS.c1.2.12.100.1700000000123456789.0");
        assert_eq!(names.reply_len(&delivery()), subject.len() as u64);
        let ack = AckSubject::parse(text).expect("it is one");
        let expected = AckSubject {
            domain: None,
            stream: "ORDERS",
            consumer: "c1",
            deliveries: 2,
            stream_seq: 12,
            consumer_seq: 100,
        };
        assert_eq!(ack, expected);
    }

    #[test]
    fn both_versions_of_subjects_are_told_apart_by_their_words() {
        let v2 = AckSubject::parse("$JS.ACK.hub.ACCHASH.S.C.1.2.3.4.5").expect("eleven words");
        assert_eq!((v2.domain, v2.stream, v2.consumer, v2.stream_seq), (Some("hub"), "S", "C", 2));
        let v2 = AckSubject::parse("$JS.ACK._.ACCHASH.S.C.1.2.3.4.5.token").expect("twelve words");
        assert_eq!((v2.domain, v2.consumer_seq), (None, 3));
        for bad in [
            "$JS.ACK.S.C.1.2.3.4",
            "$JS.ACK.S.C.1.2.3.4.5.6",
            "$JS.ACK.S.C.1.x.3.4.5",
            "$JS.ACK.S.C.1.2.+3.4.5",
            "$JS.ACK.S.C.1.99999999999999999999.3.4.5",
            "$JS.FC.S.C.1.2.3.4.5",
            "",
        ] {
            assert_eq!(AckSubject::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn payloads_are_those_of_the_table() {
        let second = Some(1_000_000_000);
        let cases: [(&[u8], AckKind<'_>); 16] = [
            (b"", AckKind::Ack),
            (b"+ACK", AckKind::Ack),
            (b"+OK", AckKind::Ack),
            (b"+WPI", AckKind::Progress),
            (b"-NAK", AckKind::Nak { delay_ns: None }),
            (b"-NAK ", AckKind::Nak { delay_ns: None }),
            (b"-NAK {\"delay\": 1000000000}", AckKind::Nak { delay_ns: second }),
            (b"-NAK {\"Delay\":1000000000}", AckKind::Nak { delay_ns: second }),
            (b"-NAK {}", AckKind::Nak { delay_ns: Some(0) }),
            (b"-NAK 1s", AckKind::Nak { delay_ns: second }),
            (b"-NAK soon", AckKind::Nak { delay_ns: None }),
            (b"+TERM", AckKind::Term { reason: "" }),
            (b"+TERM  no good ", AckKind::Term { reason: "no good" }),
            (b"+TERM \xff", AckKind::Term { reason: "" }),
            (b"+NXT 5", AckKind::Next { request: b" 5" }),
            (b"hello", AckKind::Unknown),
        ];
        for (payload, kind) in cases {
            assert_eq!(AckKind::parse(payload), kind, "{}", payload.escape_ascii());
        }
    }
}
