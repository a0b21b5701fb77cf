//! Tagged fields of our own, in messages of Kafka's protocol that have no field for what is meant.
//!
//! Kafka's clients and servers skip tagged fields that they do not know. Each of these is therefore used so
//! that a server without it changes nothing and a client notices it. Their numbers are far above Kafka's.

use bytes::{BufMut as _, Bytes, BytesMut};

/// In a DescribeAcls request, without content: decide on the request that the filter describes, instead of
/// listing rules. In its answer: a [`Verdict`]. The rule that decided is in the regular fields.
pub const EXPLAIN: u32 = 10_000;

/// In a DescribeUserScramCredentials request, without content: tell more. In a result of its answer: one
/// byte, 1 if the user is disabled. In a credential of the answer: a [`CredentialState`].
pub const USER_STATE: u32 = 10_001;

/// In a deletion of AlterUserScramCredentials: one byte, 1 to disable the user and 0 to enable it. The
/// mechanism is [`NO_MECHANISM`], which servers without this field refuse.
pub const SWITCH_USER: u32 = 10_002;

/// In an upsertion of AlterUserScramCredentials: how long the credential before it stays valid, in
/// milliseconds, as a number of 8 bytes. Only for servers that answer [`USER_STATE`].
pub const KEEP_OLD_MS: u32 = 10_003;

/// In a DescribeAcls request, without content: the resource type ANY selects rules for subjects, too.
pub const EVERY_KIND: u32 = 10_004;

/// Kafka's number for an unknown mechanism.
pub const NO_MECHANISM: i8 = 0;

/// What else a server tells of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialState {
    /// The time until which the credential before it stays valid, in milliseconds since 1970.
    pub previous_until_ms: Option<i64>,
    /// Its salt. No secret: every client that begins to log in gets it.
    pub salt: Bytes,
}

impl CredentialState {
    /// Returns the content of the field.
    pub fn encode(&self) -> Bytes {
        let mut data = BytesMut::with_capacity(8 + self.salt.len());
        data.put_i64(self.previous_until_ms.unwrap_or(-1));
        data.put_slice(&self.salt);
        data.freeze()
    }

    /// Reads the content of the field. `None` if it is too short.
    pub fn decode(data: &Bytes) -> Option<Self> {
        let until = i64_of(data.get(..8)?)?;
        Some(Self { previous_until_ms: Some(until).filter(|until| *until >= 0), salt: data.slice(8..) })
    }
}

/// What decided on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The user is one of `super.users`.
    SuperUser,
    /// The rule in the answer.
    Rule,
    /// No rule matches, and there are rules for the resource.
    DefaultBesideRules,
    /// There is no rule for the resource.
    DefaultWithoutRules,
    /// It is about the topic of the audit log, about which rules say nothing.
    AuditTopic,
}

impl Reason {
    const ALL: [Self; 5] =
        [Self::SuperUser, Self::Rule, Self::DefaultBesideRules, Self::DefaultWithoutRules, Self::AuditTopic];
}

/// A decision, as the server that was asked makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the rules allow the request.
    pub is_allowed: bool,
    /// Whether they allow only a part of it: a subscription is let in, and some of its messages are held
    /// back.
    pub is_partial: bool,
    /// Whether the server only tries its rules, and carries out what they refuse.
    pub is_tried: bool,
    /// What decided.
    pub reason: Reason,
}

impl Verdict {
    /// Returns the content of the field.
    pub fn encode(self) -> Bytes {
        let reason = Reason::ALL.iter().position(|reason| *reason == self.reason).unwrap_or_default();
        let flags = [self.is_allowed, self.is_partial, self.is_tried].map(u8::from);
        // There are five reasons.
        Bytes::copy_from_slice(&[flags[0], flags[1], flags[2], reason as u8])
    }

    /// Reads the content of the field. `None` if it is none of this version.
    pub fn decode(data: &[u8]) -> Option<Self> {
        let [allowed, partial, tried, reason] = *<&[u8; 4]>::try_from(data).ok()?;
        let reason = *Reason::ALL.get(usize::from(reason))?;
        Some(Self { is_allowed: allowed == 1, is_partial: partial == 1, is_tried: tried == 1, reason })
    }
}

/// Returns the content of a field that is a number.
pub fn number(number: i64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Reads the content of a field that is a number.
pub fn i64_of(data: &[u8]) -> Option<i64> {
    data.try_into().ok().map(i64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_back_and_other_bytes_are_none() {
        for reason in Reason::ALL {
            for (is_allowed, is_partial, is_tried) in
                [(true, false, false), (false, true, false), (false, false, true)]
            {
                let verdict = Verdict { is_allowed, is_partial, is_tried, reason };
                assert_eq!(Verdict::decode(&verdict.encode()), Some(verdict));
            }
        }
        for wrong in [&[][..], &[1, 0, 0], &[1, 0, 0, 5], &[1, 0, 0, 0, 0]] {
            assert_eq!(Verdict::decode(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_state_of_a_credential_is_read_back() {
        for previous_until_ms in [None, Some(0), Some(i64::MAX)] {
            let state = CredentialState { previous_until_ms, salt: Bytes::from_static(b"salt") };
            assert_eq!(CredentialState::decode(&state.encode()), Some(state));
        }
        assert_eq!(CredentialState::decode(&Bytes::from_static(b"1234567")), None);
        assert_eq!((i64_of(&number(-7)), i64_of(b"1234567")), (Some(-7), None));
    }
}
