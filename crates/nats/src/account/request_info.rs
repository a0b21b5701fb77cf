//! The header that tells a service who asks. Only the server sets it: services trust it, so it is removed
//! from what clients send.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tailrace_nats_wire::HEADER_LINE;

use super::Account;
use crate::client::Client;
use crate::client_info::describe;

const NAME: &[u8] = b"Nats-Request-Info";

/// Returns the header block without the header. Borrowed if it has none.
pub(crate) fn removed(block: &[u8]) -> Cow<'_, [u8]> {
    let lines = || block.split_inclusive(|byte| *byte == b'\n');
    let is_header = |line: &[u8]| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(NAME)
    };
    // Some readers take a carriage return for the end of a line.
    let is_it = |line: &&[u8]| line.split(|byte| *byte == b'\r').any(is_header);
    match lines().any(|line| is_it(&line)) {
        true => Cow::Owned(lines().filter(|line| !is_it(line)).collect::<Vec<_>>().concat()),
        false => Cow::Borrowed(block),
    }
}

/// Returns the header block with the header. As in nats-server, the account and the round trip are always
/// told, and the client's name, user, address and server only if the import says `share`.
pub(super) fn added(
    block: Option<&[u8]>,
    from: &Arc<Account>,
    origin: Option<&Client>,
    shares: bool,
) -> Vec<u8> {
    let mut info = json!({ "acc": &**from.name(), "rtt": 0 });
    if let Some(client) = origin {
        let round_trip_us = client.counts.round_trip_us.load(Ordering::Relaxed);
        info["rtt"] = json!(round_trip_us.saturating_mul(1000));
        if shares
            && let (Some(info), Value::Object(more)) =
                (info.as_object_mut(), describe(client, client.said().as_deref()))
        {
            info.extend(more.into_iter().filter(|(key, _)| key != "acc"));
            info.insert("server".to_owned(), json!(&*from.server));
        }
    }
    let plain = [HEADER_LINE, b"\r\n\r\n"].concat();
    let block = block.map_or(Cow::Borrowed(&*plain), removed);
    let lines = block.strip_suffix(b"\r\n").unwrap_or(&block);
    [lines, NAME, b": ", info.to_string().as_bytes(), b"\r\n\r\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_sends_is_removed_in_every_form() {
        for forged in [
            "NATS/1.0\r\nNats-Request-Info: {}\r\nA: b\r\n\r\n",
            "NATS/1.0\r\nA: b\r\nnats-request-INFO:{}\r\n\r\n",
            "NATS/1.0\r\nC: d\rNats-Request-Info: {}\r\nA: b\r\n\r\n",
            "NATS/1.0\r\n Nats-Request-Info : x\r\nA: b\r\nNats-Request-Info: y\r\n\r\n",
        ] {
            let kept = removed(forged.as_bytes());
            assert_eq!(std::str::from_utf8(&kept).unwrap(), "NATS/1.0\r\nA: b\r\n\r\n", "{forged:?}");
        }
        let other = b"NATS/1.0\r\nA: Nats-Request-Info\r\n\r\n";
        assert_eq!(removed(other), &other[..]);
    }

    #[test]
    fn the_servers_own_is_added_to_what_is_there() {
        let front = crate::testing::front();
        let account = front.accounts().get("B");
        let info = "Nats-Request-Info: {\"acc\":\"B\",\"rtt\":0}\r\n\r\n";
        let text = |block: Option<&str>| {
            String::from_utf8(added(block.map(str::as_bytes), &account, None, true)).unwrap()
        };
        assert_eq!(text(None), format!("NATS/1.0\r\n{info}"));
        let forged = "NATS/1.0\r\nA: b\r\nNats-Request-Info: {\"acc\":\"admin\"}\r\n\r\n";
        assert_eq!(text(Some(forged)), format!("NATS/1.0\r\nA: b\r\n{info}"));
    }
}
