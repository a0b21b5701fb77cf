//! Prints the two files that exist once: the list of messages and the enumeration of API keys.

use std::fmt::Write as _;

use super::super::layout::{Api, Message};
use super::super::naming;
use super::text::{HEADER, in_words, line};

/// Returns the file that lists all messages.
pub(in super::super) fn module(messages: &[Message]) -> String {
    let mut out = String::from(HEADER);
    line!(out, "//! All messages that tailrace knows, generated from Kafka's definitions.\n");
    line!(out, "use crate::RequestVisitor;\n");
    line!(out, "pub mod api_key;");
    for message in messages {
        line!(out, "pub mod {};", naming::snake(&message.name));
    }
    line!(out, "\npub use api_key::ApiKey;");
    for message in messages {
        line!(out, "pub use {}::{};", naming::snake(&message.name), message.name);
    }
    line!(
        out,
        "\n/// Calls `visitor` with the request type of `key`; `None` if no message was generated for it."
    );
    line!(
        out,
        "pub fn with_request<V: RequestVisitor>(key: ApiKey, visitor: V) -> Option<V::Output> {{\nSome(match key {{"
    );
    for message in messages.iter().filter(|message| message.is_request) {
        let api = message.name.trim_end_matches("Request");
        line!(out, "ApiKey::{api} => visitor.visit::<{}>(),", message.name);
    }
    line!(out, "#[allow(unreachable_patterns, reason = \"not every key needs to have messages\")]");
    line!(out, "_ => return None,\n}})\n}}\n");
    let keys: Vec<_> = messages
        .iter()
        .filter(|message| message.is_request)
        .map(|message| format!("ApiKey::{}", message.name.trim_end_matches("Request")))
        .collect();
    line!(out, "/// The keys that have messages, ascending.");
    line!(out, "pub const GENERATED: &[ApiKey] = &[{}];", keys.join(", "));
    out
}

/// Returns the file with the enumeration of API keys.
pub(in super::super) fn api_keys(apis: &[Api]) -> String {
    let mut out = String::from(HEADER);
    line!(out, "//! API keys, their versions and their header versions.\n\nuse crate::VersionRange;\n");
    line!(
        out,
        "/// The kind of a request. Has every key with a valid version, even without generated messages."
    );
    line!(out, "#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\npub enum ApiKey {{");
    for api in apis {
        line!(out, "/// Key {}, {}.\n{} = {},", api.key, in_words(api.versions), api.name, api.key);
    }
    line!(out, "}}\n\nimpl ApiKey {{");
    line!(out, "/// Every key, ascending.\npub const ALL: &[Self] = &[");
    for api in apis {
        line!(out, "Self::{},", api.name);
    }
    line!(out, "];\n\n/// The key with this number.\npub const fn from_code(code: i16) -> Option<Self> {{");
    line!(out, "Some(match code {{");
    for api in apis {
        line!(out, "{} => Self::{},", api.key, api.name);
    }
    line!(
        out,
        "_ => return None,\n}})\n}}\n\n/// Returns the number of the key.\npub const fn code(self) -> i16 {{ self as i16 }}\n"
    );
    line!(
        out,
        "/// Returns the name, such as `Produce`.\npub const fn name(self) -> &'static str {{\nmatch self {{"
    );
    for api in apis {
        line!(out, "Self::{0} => \"{0}\",", api.name);
    }
    line!(out, "}}\n}}\n\n/// All versions in the message definitions.");
    line!(out, "pub const fn versions(self) -> VersionRange {{\nlet (min, max) = match self {{");
    for api in apis {
        line!(out, "Self::{} => ({}, {}),", api.name, api.versions.min, api.versions.max);
    }
    line!(out, "}};\nVersionRange {{ min, max }}\n}}\n");
    line!(out, "/// The versions that are not marked as unstable.");
    line!(
        out,
        "pub const fn stable_versions(self) -> VersionRange {{\nlet all = self.versions();\nmatch self {{"
    );
    for api in apis.iter().filter(|api| api.stable_max != api.versions.max) {
        line!(out, "Self::{} => VersionRange {{ min: all.min, max: {} }},", api.name, api.stable_max);
    }
    line!(out, "_ => all,\n}}\n}}\n");
    flexible_from(&mut out, apis, "request", |api| api.request_flexible_from);
    flexible_from(&mut out, apis, "response", |api| api.response_flexible_from);
    out.push_str(API_KEY_HEADERS);
    line!(out, "}}");
    out
}

fn flexible_from(out: &mut String, apis: &[Api], what: &str, from: impl Fn(&Api) -> Option<i16>) {
    line!(out, "/// First version of its {what} with compact lengths and tagged fields.");
    line!(out, "pub const fn {what}_flexible_from(self) -> Option<i16> {{\nmatch self {{");
    for api in apis {
        line!(out, "Self::{} => {:?},", api.name, from(api));
    }
    line!(out, "}}\n}}\n");
}

const API_KEY_HEADERS: &str = "
    /// Version of the header before a request of this version, known or not: 1, or 2 if it is flexible.
    pub const fn request_header_version(self, version: i16) -> i16 {
        match self.request_flexible_from() {
            Some(from) if version >= from => 2,
            _ => 1,
        }
    }

    /// Version of the header before a response of this version: 0, or 1 if it is flexible. Always 0 for
    /// ApiVersions, because the client does not yet know what the server supports (KIP-511).
    pub const fn response_header_version(self, version: i16) -> i16 {
        match self.response_flexible_from() {
            Some(from) if version >= from && !matches!(self, Self::ApiVersions) => 1,
            _ => 0,
        }
    }
";
