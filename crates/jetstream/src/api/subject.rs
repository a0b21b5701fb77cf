//! The subjects of the API.

use crate::consumer_config::CreateForm;

/// What a subject asks for. The names are those in the subject, whatever they are: whether there is such a
/// stream is for the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is a subject of the protocol, and the fields are its words")]
pub enum Request<'a> {
    AccountInfo,
    StreamCreate {
        stream: &'a str,
    },
    StreamUpdate {
        stream: &'a str,
    },
    StreamNames,
    StreamList,
    StreamInfo {
        stream: &'a str,
    },
    StreamDelete {
        stream: &'a str,
    },
    StreamPurge {
        stream: &'a str,
    },
    StreamSnapshot {
        stream: &'a str,
    },
    StreamRestore {
        stream: &'a str,
    },
    StreamRemovePeer {
        stream: &'a str,
    },
    StreamEvacuatePeer {
        stream: &'a str,
    },
    StreamCancelMove {
        stream: &'a str,
    },
    StreamStepDown {
        stream: &'a str,
    },
    MessageGet {
        stream: &'a str,
    },
    MessageDelete {
        stream: &'a str,
    },
    DirectGet {
        stream: &'a str,
    },
    /// The last message of a subject.
    DirectGetLast {
        stream: &'a str,
        subject: &'a str,
    },
    ConsumerCreate(CreateForm<'a>),
    ConsumerNames {
        stream: &'a str,
    },
    ConsumerList {
        stream: &'a str,
    },
    ConsumerInfo {
        stream: &'a str,
        consumer: &'a str,
    },
    ConsumerDelete {
        stream: &'a str,
        consumer: &'a str,
    },
    ConsumerPause {
        stream: &'a str,
        consumer: &'a str,
    },
    ConsumerUnpin {
        stream: &'a str,
        consumer: &'a str,
    },
    ConsumerReset {
        stream: &'a str,
        consumer: &'a str,
    },
    ConsumerStepDown {
        stream: &'a str,
        consumer: &'a str,
    },
    ConsumerRemovePeer {
        stream: &'a str,
        consumer: &'a str,
    },
    ConsumerEvacuatePeer {
        stream: &'a str,
        consumer: &'a str,
    },
    /// The body is for the consumer's own parser.
    ConsumerNext {
        stream: &'a str,
        consumer: &'a str,
    },
}

impl<'a> Request<'a> {
    /// Reads a subject: `$JS.API.` or, if the server has this domain, `$JS.DOMAIN.API.`. What is none gets no
    /// answer at all, as in nats-server. Subjects of the system account are none.
    #[must_use]
    pub fn parse(subject: &'a str, domain: Option<&str>) -> Option<Self> {
        let rest = subject.strip_prefix("$JS.")?;
        let rest = match rest.strip_prefix("API.") {
            Some(rest) => rest,
            None => rest.strip_prefix(domain?)?.strip_prefix(".API.")?,
        };
        if rest.split('.').any(str::is_empty) {
            return None;
        }
        let (first, rest) = rest.split_once('.').unwrap_or((rest, ""));
        match (first, rest) {
            ("INFO", "") => Some(Self::AccountInfo),
            ("STREAM", rest) => Self::of_stream(rest),
            ("CONSUMER", rest) => Self::of_consumer(rest),
            ("DIRECT", rest) => Self::direct(rest.strip_prefix("GET.")?),
            _ => None,
        }
    }

    fn of_stream(rest: &'a str) -> Option<Self> {
        match rest {
            "NAMES" => return Some(Self::StreamNames),
            "LIST" => return Some(Self::StreamList),
            _ => {}
        }
        let (verb, stream) = rest.rsplit_once('.')?;
        Some(match verb {
            "CREATE" => Self::StreamCreate { stream },
            "UPDATE" => Self::StreamUpdate { stream },
            "INFO" => Self::StreamInfo { stream },
            "DELETE" => Self::StreamDelete { stream },
            "PURGE" => Self::StreamPurge { stream },
            "SNAPSHOT" => Self::StreamSnapshot { stream },
            "RESTORE" => Self::StreamRestore { stream },
            "MSG.GET" => Self::MessageGet { stream },
            "MSG.DELETE" => Self::MessageDelete { stream },
            "PEER.REMOVE" => Self::StreamRemovePeer { stream },
            "PEER.EVACUATE" => Self::StreamEvacuatePeer { stream },
            "CANCEL_MOVE" => Self::StreamCancelMove { stream },
            "LEADER.STEPDOWN" => Self::StreamStepDown { stream },
            _ => return None,
        })
    }

    fn direct(rest: &'a str) -> Option<Self> {
        Some(match rest.split_once('.') {
            None => Self::DirectGet { stream: rest },
            Some((stream, subject)) => Self::DirectGetLast { stream, subject },
        })
    }

    fn of_consumer(rest: &'a str) -> Option<Self> {
        if let Some(rest) = rest.strip_prefix("CREATE.") {
            return Some(Self::ConsumerCreate(create_form(rest)));
        }
        let (head, last) = rest.rsplit_once('.')?;
        match head {
            "NAMES" => return Some(Self::ConsumerNames { stream: last }),
            "LIST" => return Some(Self::ConsumerList { stream: last }),
            _ => {}
        }
        let (verb, stream) = head.rsplit_once('.')?;
        let consumer = last;
        Some(match verb {
            "DURABLE.CREATE" => Self::ConsumerCreate(CreateForm::Durable { stream, consumer }),
            "INFO" => Self::ConsumerInfo { stream, consumer },
            "DELETE" => Self::ConsumerDelete { stream, consumer },
            "PAUSE" => Self::ConsumerPause { stream, consumer },
            "UNPIN" => Self::ConsumerUnpin { stream, consumer },
            "RESET" => Self::ConsumerReset { stream, consumer },
            "MSG.NEXT" => Self::ConsumerNext { stream, consumer },
            "LEADER.STEPDOWN" => Self::ConsumerStepDown { stream, consumer },
            "PEER.REMOVE" => Self::ConsumerRemovePeer { stream, consumer },
            "PEER.EVACUATE" => Self::ConsumerEvacuatePeer { stream, consumer },
            _ => return None,
        })
    }

    /// What the `type` of an answer says between `io.nats.jetstream.api.v1.` and `_response`. Requests whose
    /// answers are messages have none.
    #[must_use]
    pub fn answer_type(&self) -> Option<&'static str> {
        Some(match self {
            Self::AccountInfo => "account_info",
            Self::StreamCreate { .. } => "stream_create",
            Self::StreamRestore { .. } => "stream_restore",
            Self::StreamUpdate { .. } => "stream_update",
            Self::StreamNames => "stream_names",
            Self::StreamList => "stream_list",
            Self::StreamInfo { .. } => "stream_info",
            Self::StreamDelete { .. } => "stream_delete",
            Self::StreamPurge { .. } => "stream_purge",
            Self::StreamSnapshot { .. } => "stream_snapshot",
            Self::StreamRemovePeer { .. } => "stream_remove_peer",
            Self::StreamEvacuatePeer { .. } => "stream_evacuate_peer",
            Self::StreamCancelMove { .. } => "stream_cancel_move",
            Self::StreamStepDown { .. } => "stream_leader_stepdown",
            Self::MessageGet { .. } => "stream_msg_get",
            Self::MessageDelete { .. } => "stream_msg_delete",
            Self::ConsumerCreate(_) => "consumer_create",
            Self::ConsumerNames { .. } => "consumer_names",
            Self::ConsumerList { .. } => "consumer_list",
            Self::ConsumerInfo { .. } => "consumer_info",
            Self::ConsumerDelete { .. } => "consumer_delete",
            Self::ConsumerPause { .. } => "consumer_pause",
            Self::ConsumerUnpin { .. } => "consumer_unpin",
            Self::ConsumerReset { .. } => "consumer_reset",
            Self::ConsumerStepDown { .. } => "consumer_leader_stepdown",
            Self::ConsumerRemovePeer { .. } => "consumer_remove_peer",
            Self::ConsumerEvacuatePeer { .. } => "consumer_evacuate_peer",
            Self::DirectGet { .. } | Self::DirectGetLast { .. } | Self::ConsumerNext { .. } => return None,
        })
    }
}

fn create_form(rest: &str) -> CreateForm<'_> {
    let Some((stream, rest)) = rest.split_once('.') else { return CreateForm::Unnamed { stream: rest } };
    let (consumer, filter) = match rest.split_once('.') {
        Some((consumer, filter)) => (consumer, Some(filter)),
        None => (rest, None),
    };
    CreateForm::Named { stream, consumer, filter }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_read() {
        let known = [
            ("$JS.API.INFO", Some(Request::AccountInfo)),
            ("$JS.API.STREAM.NAMES", Some(Request::StreamNames)),
            ("$JS.API.STREAM.LIST", Some(Request::StreamList)),
            ("$JS.API.STREAM.CREATE.S", Some(Request::StreamCreate { stream: "S" })),
            ("$JS.API.STREAM.MSG.GET.S", Some(Request::MessageGet { stream: "S" })),
            ("$JS.API.STREAM.LEADER.STEPDOWN.S", Some(Request::StreamStepDown { stream: "S" })),
            ("$JS.API.DIRECT.GET.S", Some(Request::DirectGet { stream: "S" })),
            (
                "$JS.API.DIRECT.GET.S.$KV.b.k",
                Some(Request::DirectGetLast { stream: "S", subject: "$KV.b.k" }),
            ),
            ("$JS.API.CONSUMER.CREATE.S", Some(Request::ConsumerCreate(CreateForm::Unnamed { stream: "S" }))),
            (
                "$JS.API.CONSUMER.CREATE.S.C.a.>",
                Some(Request::ConsumerCreate(CreateForm::Named {
                    stream: "S",
                    consumer: "C",
                    filter: Some("a.>"),
                })),
            ),
            (
                "$JS.API.CONSUMER.DURABLE.CREATE.S.C",
                Some(Request::ConsumerCreate(CreateForm::Durable { stream: "S", consumer: "C" })),
            ),
            ("$JS.API.CONSUMER.MSG.NEXT.S.C", Some(Request::ConsumerNext { stream: "S", consumer: "C" })),
            ("$JS.API.CONSUMER.NAMES.S", Some(Request::ConsumerNames { stream: "S" })),
        ];
        for (subject, wanted) in known {
            assert_eq!(Request::parse(subject, None), wanted, "{subject}");
            let domain = subject.replace("$JS.API", "$JS.hub.API");
            assert_eq!(Request::parse(&domain, Some("hub")), wanted);
            assert_eq!(Request::parse(&domain, Some("hu")), None);
            assert_eq!(Request::parse(&domain, None), None);
        }
    }

    #[test]
    fn other_subjects_get_no_answer() {
        let others = [
            "$JS.API",
            "$JS.API.",
            "$JS.API.FOO",
            "$JS.API.INFO.X",
            "$JS.API.STREAM",
            "$JS.API.STREAM.CREATE",
            "$JS.API.STREAM.CREATE.a.b",
            "$JS.API.STREAM.NAMES.x",
            "$JS.API.STREAM.CREATE.",
            "$JS.API.STREAM..x",
            "$JS.API.STREAM.TEMPLATE.CREATE.x",
            "$JS.API.CONSUMER.INFO.S",
            "$JS.API.CONSUMER.INFO.S.C.D",
            "$JS.API.CONSUMER.DURABLE.CREATE.S",
            "$JS.API.CONSUMER.DURABLE.CREATE.S.C.D",
            "$JS.API.CONSUMER.CREATE",
            "$JS.API.CONSUMER.NAMES",
            "$JS.API.CONSUMER.NAMES.S.C",
            "$JS.API.META.LEADER.STEPDOWN",
            "$JS.API.SERVER.REMOVE",
            "$JS.API.ACCOUNT.PURGE.A",
            "$JS.API.DIRECT.GET",
            "JS.API.INFO",
            "",
            "$JS.API.CONSUMER.CREATE.S..C",
        ];
        for subject in others {
            assert_eq!(Request::parse(subject, None), None, "{subject}");
        }
    }
}
