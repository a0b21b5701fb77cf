//! Auth callout (ADR-26 of NATS): a service decides who a client is, instead of the server.
//!
//! The server asks with a signed token in which the client's passwords stand as they are: [`Question`]. It
//! believes an answer only if everything in it is as expected: [`Expected::check`]. With a curve key of the
//! service, both are sealed: [`CurveKey`].

mod answer;
mod question;
mod settings;
mod xkey;

pub use answer::{Authority, CalloutDenied, CalloutUser, Expected};
pub use question::{
    ClientTls, ConnectOptions, Question, QuestionClient, QuestionError, SealWith, ServerInfo,
};
pub(crate) use settings::CalloutTable;
pub use xkey::{CurveKey, SealError};

use super::definition::CalloutSettings;

/// The subject of questions, in the account of the service.
pub const CALLOUT_SUBJECT: &str = "$SYS.REQ.USER.AUTH";

/// The header with the server's public curve key, if the question is sealed.
pub const XKEY_HEADER: &str = "Nats-Server-Xkey";

/// Maximum length of an answer, in bytes: that of its token, sealed.
pub(crate) const ANSWER_BYTES_MAX: usize = (128 << 10) + 64;

impl CalloutSettings {
    /// Reports whether the service is asked about a user. `id` is the name or the public key of a user whom
    /// the server knows and who has proved to be that user, or in operator mode the subject of the token.
    /// It is asked about all others.
    pub fn is_asked_about(&self, id: Option<&str>) -> bool {
        id.is_none_or(|id| !self.auth_users.contains(id))
    }
}
