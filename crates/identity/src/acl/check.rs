//! Which rules may be stored: what Kafka's CreateAcls refuses, and bounds of our own.

use super::host::Host;
use super::{Acl, CLUSTER_NAME, Operation, PatternKind, ResourceKind};
use crate::rules::is_pattern;

/// Maximum length of the name of a resource, in bytes. Topic names have 249 at most. Group ids may be longer
/// in Kafka, and then only a prefix or `*` can name them.
pub const NAME_BYTES_MAX: usize = 1024;

/// Maximum length of a principal, in bytes.
pub const PRINCIPAL_BYTES_MAX: usize = 1024;

/// Maximum number of words in the pattern of a rule for subjects. Searches recurse once per word.
pub(crate) const SUBJECT_WORDS_MAX: usize = 256;

/// Why a rule is refused. Kafka answers INVALID_REQUEST (42), with the texts of the first three variants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AclError {
    /// A cluster has only one name.
    #[error("The only valid name for the CLUSTER resource is {CLUSTER_NAME}")]
    ClusterName,
    /// The name of the resource is empty.
    #[error("Invalid empty resource name")]
    EmptyName,
    /// The principal has no type.
    #[error(
        "Could not parse principal from `{principal}` (no colon is present separating the principal type from \
         the principal name)"
    )]
    Principal {
        /// The principal.
        principal: String,
    },
    /// The name of the resource is too long.
    #[error("The name of a resource has at most {NAME_BYTES_MAX} bytes, not {bytes}")]
    NameTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The principal is too long.
    #[error("A principal has at most {PRINCIPAL_BYTES_MAX} bytes, not {bytes}")]
    PrincipalTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The host is neither an address nor a network nor `*`.
    #[error("The host {host:?} is neither an address, nor a network such as 10.0.0.0/8, nor *")]
    Host {
        /// The host.
        host: String,
    },
    /// Subjects have no prefixes.
    #[error("A rule for subjects must be LITERAL: its name may have the wildcards of NATS")]
    PrefixedSubject,
    /// The name is not a pattern of NATS.
    #[error("{name:?} is not a valid NATS subject, with or without wildcards")]
    Subject {
        /// The name of the resource.
        name: String,
    },
    /// The pattern has too many words.
    #[error("A rule for subjects has at most {SUBJECT_WORDS_MAX} words, not {words}")]
    TooManyWords {
        /// Their number.
        words: usize,
    },
    /// A queue group in a rule that is not about subscriptions alone.
    #[error("{name:?} names a queue group: only rules for READ may")]
    Queue {
        /// The name of the resource.
        name: String,
    },
}

impl Acl {
    /// Checks whether the rule may be stored. As in Kafka, the operation need not fit the kind of resource:
    /// such a rule is harmless.
    ///
    /// # Errors
    /// The first fault that was found.
    pub fn check(&self) -> Result<(), AclError> {
        self.checked_host().map(drop)
    }

    /// Checks the rule, and returns its host.
    pub(super) fn checked_host(&self) -> Result<Host, AclError> {
        self.check_name()?;
        if !self.principal.contains(':') {
            let principal = self.principal.chars().take(PRINCIPAL_BYTES_MAX).collect();
            return Err(AclError::Principal { principal });
        }
        if self.principal.len() > PRINCIPAL_BYTES_MAX {
            return Err(AclError::PrincipalTooLong { bytes: self.principal.len() });
        }
        Host::parse(&self.host).ok_or_else(|| {
            // A network of IPv6 has 43 characters at most.
            AclError::Host { host: self.host.chars().take(64).collect() }
        })
    }

    fn check_name(&self) -> Result<(), AclError> {
        if self.kind == ResourceKind::Cluster && self.name != CLUSTER_NAME {
            return Err(AclError::ClusterName);
        }
        if self.name.is_empty() {
            return Err(AclError::EmptyName);
        }
        if self.name.len() > NAME_BYTES_MAX {
            return Err(AclError::NameTooLong { bytes: self.name.len() });
        }
        if self.kind == ResourceKind::Subject { self.check_subject() } else { Ok(()) }
    }

    fn check_subject(&self) -> Result<(), AclError> {
        if self.pattern != PatternKind::Literal {
            return Err(AclError::PrefixedSubject);
        }
        let (pattern, queue) = self.subject_and_queue();
        if ![Some(pattern), queue].into_iter().flatten().all(is_subject) {
            return Err(AclError::Subject { name: self.name.clone() });
        }
        let words = pattern.split('.').count();
        if words > SUBJECT_WORDS_MAX {
            return Err(AclError::TooManyWords { words });
        }
        if queue.is_some() && self.operation != Operation::Read {
            return Err(AclError::Queue { name: self.name.clone() });
        }
        Ok(())
    }

    /// Splits the name of a rule for subjects into its pattern, and the pattern of a queue group.
    pub(super) fn subject_and_queue(&self) -> (&str, Option<&str>) {
        match self.name.split_once(' ') {
            Some((pattern, queue)) => (pattern, Some(queue)),
            None => (&self.name, None),
        }
    }
}

/// Reports whether the text is a pattern, without the characters that NATS forbids: blanks and controls.
fn is_subject(text: &str) -> bool {
    is_pattern(text) && text.bytes().all(|byte| byte > b' ' && byte != 0x7f)
}
