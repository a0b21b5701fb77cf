//! What the operator demands of tokens.

use crate::names::{UserName, UserNameError};

/// Maximum clock skew, in milliseconds. A stolen token works that much longer than its issuer meant.
const CLOCK_SKEW_MS_MAX: i64 = 10 * 60 * 1_000;

/// Maximum number of audiences. A token's audiences are compared with each of them.
const AUDIENCES_MAX: usize = 64;

/// Maximum length of an issuer, an audience or the name of a claim, in bytes.
const TEXT_BYTES_MAX: usize = 1_024;

/// What a token must say, and which of its claims are used. The names in parentheses are Kafka's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSettings {
    /// The only issuer (`sasl.oauthbearer.expected.issuer`).
    pub issuer: String,
    /// The audiences, of which a token must have one (`sasl.oauthbearer.expected.audience`).
    pub audiences: Vec<String>,
    /// The claim with the user's name (`sasl.oauthbearer.sub.claim.name`).
    pub subject_claim: String,
    /// The claim with the scopes (`sasl.oauthbearer.scope.claim.name`).
    pub scope_claim: String,
    /// How much the clocks of the issuer and of this machine may differ, in milliseconds
    /// (`sasl.oauthbearer.clock.skew.seconds`).
    pub clock_skew_ms: i64,
    /// Is put in front of the name in a token. With a prefix, the identity provider cannot name a user that
    /// exists here for another reason, such as `admin`.
    pub name_prefix: String,
}

impl TokenSettings {
    /// Returns Kafka's defaults: the claims `sub` and `scope`, 30 s of clock skew, no prefix. Kafka has
    /// defaults for the other two, too: any issuer, and any audience. Here they must be named. Otherwise a
    /// token that was issued for another service opens this one.
    pub fn new(issuer: &str, audiences: &[&str]) -> Self {
        Self {
            issuer: issuer.to_owned(),
            audiences: audiences.iter().copied().map(str::to_owned).collect(),
            subject_claim: "sub".to_owned(),
            scope_claim: "scope".to_owned(),
            clock_skew_ms: 30_000,
            name_prefix: String::new(),
        }
    }

    pub(super) fn check(&self) -> Result<(), TokenSettingsError> {
        let is_text = |text: &String| !text.trim().is_empty() && text.len() <= TEXT_BYTES_MAX;
        if !is_text(&self.issuer) {
            return Err(TokenSettingsError::Issuer);
        }
        if !(1..=AUDIENCES_MAX).contains(&self.audiences.len()) || !self.audiences.iter().all(is_text) {
            return Err(TokenSettingsError::Audience);
        }
        if !is_text(&self.subject_claim) || !is_text(&self.scope_claim) {
            return Err(TokenSettingsError::Claim);
        }
        if !(0..=CLOCK_SKEW_MS_MAX).contains(&self.clock_skew_ms) {
            return Err(TokenSettingsError::ClockSkew { found_ms: self.clock_skew_ms });
        }
        // The prefix is legal if a name with it can be.
        UserName::new(&format!("{}a", self.name_prefix))?;
        Ok(())
    }
}

/// Why tokens cannot be validated with these settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenSettingsError {
    /// No issuer, or one that is too long.
    #[error("the issuer must be named, with at most {TEXT_BYTES_MAX} bytes")]
    Issuer,
    /// No audience, or too many or too long ones.
    #[error("1 to {AUDIENCES_MAX} audiences must be named, with at most {TEXT_BYTES_MAX} bytes each")]
    Audience,
    /// No name of a claim, or one that is too long.
    #[error("the claims for the name and for the scopes must be named, with at most {TEXT_BYTES_MAX} bytes")]
    Claim,
    /// Out of range.
    #[error("the clock skew must be between 0 and {CLOCK_SKEW_MS_MAX} ms, not {found_ms}")]
    ClockSkew {
        /// The setting, in milliseconds.
        found_ms: i64,
    },
    /// No user could have a name with this prefix.
    #[error("the prefix of names is not usable: {0}")]
    Prefix(#[from] UserNameError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut TokenSettings)) -> Result<(), TokenSettingsError> {
        let mut settings = TokenSettings::new("https://idp", &["kafka", "events"]);
        change(&mut settings);
        settings.check()
    }

    #[test]
    fn an_issuer_and_an_audience_must_be_named() {
        assert_eq!(with(|_| ()), Ok(()));
        assert_eq!(with(|settings| settings.issuer.clear()), Err(TokenSettingsError::Issuer));
        assert_eq!(with(|settings| settings.issuer = " ".to_owned()), Err(TokenSettingsError::Issuer));
        assert_eq!(with(|settings| settings.audiences.clear()), Err(TokenSettingsError::Audience));
        assert_eq!(with(|settings| settings.audiences[1].clear()), Err(TokenSettingsError::Audience));
        let many = vec!["a".to_owned(); 65];
        assert_eq!(with(|settings| settings.audiences = many), Err(TokenSettingsError::Audience));
        let long = "a".repeat(1_025);
        assert_eq!(with(|settings| settings.issuer = long), Err(TokenSettingsError::Issuer));
    }

    #[test]
    fn the_other_settings_are_checked_too() {
        assert_eq!(with(|settings| settings.subject_claim.clear()), Err(TokenSettingsError::Claim));
        assert_eq!(with(|settings| settings.scope_claim.clear()), Err(TokenSettingsError::Claim));
        for found_ms in [-1, 600_001, i64::MIN, i64::MAX] {
            let expected = Err(TokenSettingsError::ClockSkew { found_ms });
            assert_eq!(with(|settings| settings.clock_skew_ms = found_ms), expected);
        }
        assert_eq!(with(|settings| settings.clock_skew_ms = 600_000), Ok(()));
        assert_eq!(with(|settings| settings.name_prefix = "idp:".to_owned()), Ok(()));
        for prefix in ["a\n".to_owned(), "a;".to_owned(), "a".repeat(255)] {
            let found = with(|settings| settings.name_prefix = prefix);
            assert!(matches!(found, Err(TokenSettingsError::Prefix(_))), "{found:?}");
        }
    }
}
