//! Describes a message as it is on the wire (docs/replication.md).

use bytes::{Buf as _, Bytes, BytesMut};
use tailrace_replication::raft::PeerMessage;

struct Fields {
    rejects: bool,
    term: u64,
    log_term: u64,
    index: u64,
    commit: u64,
    reject_hint: u64,
    entries: u32,
}

/// Returns, for example, "1>2 append 3 after 2 of term 1, committed 2 (term 1)".
pub(super) fn describe(message: &PeerMessage) -> String {
    let mut encoded = BytesMut::new();
    message.encode(&mut encoded);
    let (kind, fields) = parse(encoded.freeze());
    let Fields { rejects, term, log_term, index, commit, reject_hint, entries } = fields;
    let what = match kind {
        1 => {
            let carried = match entries {
                0 => "nothing".to_owned(),
                1 => format!("{}", index + 1),
                _ => format!("{}-{}", index + 1, index + u64::from(entries)),
            };
            format!("append {carried} after {index} of term {log_term}, committed {commit}")
        }
        2 if rejects => format!("refuses what comes after {index}, has {reject_hint} of term {log_term}"),
        2 => format!("has {index}, knows {commit} to be committed"),
        3 => format!("heartbeat, committed {commit}"),
        4 => format!("heard, knows {commit} to be committed"),
        5 => format!("asks for a vote, last {index} of term {log_term}"),
        7 => format!("would like a vote, last {index} of term {log_term}"),
        6 | 8 if rejects => "votes against it".to_owned(),
        6 => "votes for it".to_owned(),
        8 => "would vote for it".to_owned(),
        9 => "wants another leader".to_owned(),
        10 => "is to ask for votes at once".to_owned(),
        14 => "offers a snapshot".to_owned(),
        other => panic!("kind {other}"),
    };
    format!("{}>{} {what} (term {term})", message.from().0, message.to().0)
}

fn parse(mut bytes: Bytes) -> (u8, Fields) {
    assert_eq!(bytes.get_u8(), 1, "version");
    let (kind, rejects) = (bytes.get_u8(), bytes.get_u8() == 1);
    bytes.advance(1 + 2 * 8);
    let [term, log_term, index, commit, _, reject_hint, _, _] = [(); 8].map(|()| bytes.get_u64_le());
    let _context = bytes.get_u32_le();
    let entries = bytes.get_u32_le();
    (kind, Fields { rejects, term, log_term, index, commit, reject_hint, entries })
}
