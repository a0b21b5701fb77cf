//! The public keys of an identity provider: a JSON Web Key Set (RFC 7517).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::RsaPublicKeyComponents;

use super::algorithm::{Algorithm, Curve, PublicKey};
use super::json::{Json, JsonError, Object, beginning, object};

/// Maximum length of a set, in bytes. With the certificates that some providers add, a key takes some 4 KiB.
const SET_BYTES_MAX: usize = 1 << 20;

/// Maximum number of keys. Identity providers publish two to ten.
const KEYS_MAX: usize = 256;

/// Maximum number of values in the JSON of a set: 32 for each key.
const VALUES_MAX: usize = KEYS_MAX * 32;

/// Maximum length of a key's id, in characters, as in Kafka.
pub(super) const KID_CHARS_MAX: usize = 1_000;

/// Lengths of RSA moduli, in bytes: 2,048 to 8,192 bits.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1_024;

/// Maximum length of an RSA exponent, in bytes. Nearly all have three: 65,537.
const EXPONENT_BYTES_MAX: usize = 4;

/// What is wrong with a key set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwksError {
    /// Too many bytes.
    #[error("the key set has {found} bytes, and {SET_BYTES_MAX} are the most")]
    TooLong {
        /// The length, in bytes.
        found: usize,
    },
    /// It is not the JSON of an object, or a key occurs twice in one.
    #[error("the key set cannot be read: {0}")]
    Json(#[from] JsonError),
    /// There is no list `keys`.
    #[error("the key set has no list named keys")]
    NoList,
    /// Too many keys.
    #[error("the key set has {found} keys, and {KEYS_MAX} are the most")]
    TooManyKeys {
        /// How many there are.
        found: usize,
    },
    /// Two keys have the same id, so it does not say which key signed a token.
    #[error("the key set has two keys with the kid {kid:?}")]
    Twice {
        /// The beginning of the id.
        kid: String,
    },
    /// No key can be used.
    #[error("the key set has no usable key{}", listed(skipped))]
    NoKey {
        /// The keys that cannot be used, and why.
        skipped: Vec<SkippedKey>,
    },
}

fn listed(skipped: &[SkippedKey]) -> String {
    skipped.iter().map(|key| format!("; {key}")).collect()
}

/// A key of a set that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedKey {
    /// Its position in the list, counted from 1.
    pub position: usize,
    /// The beginning of its id, if it has one.
    pub kid: Option<String>,
    /// Why it cannot be used.
    pub reason: SkipReason,
}

impl fmt::Display for SkippedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}", self.position)?;
        if let Some(kid) = &self.kid {
            write!(f, " (kid {kid:?})")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Why a key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// Not an object.
    #[error("it is not an object")]
    NotAnObject,
    /// No id, so no token can name it.
    #[error("it has no kid, or one that is empty or not a text")]
    NoKid,
    /// Too long an id.
    #[error("its kid has more than {KID_CHARS_MAX} characters")]
    KidTooLong,
    /// A symmetric key (`oct`). It is a secret, and would let everybody sign tokens who can read it.
    #[error("it is a symmetric key")]
    Symmetric,
    /// Another type than RSA and EC.
    #[error("its kty is neither RSA nor EC")]
    Type,
    /// The set has the private key, too. It must not be trusted any longer.
    #[error("it is a private key: replace it, since others have seen it")]
    Private,
    /// It is not for signatures.
    #[error("its use is not sig, or its key_ops have no verify")]
    Use,
    /// An algorithm that is not supported or that its type does not allow.
    #[error("its alg is not one for keys of its type: expected RS, PS or ES with 256, 384 or 512")]
    Algorithm,
    /// Another curve than P-256 and P-384.
    #[error("its crv is neither P-256 nor P-384")]
    Curve,
    /// A coordinate is missing or malformed.
    #[error("its x or y is missing, or is not base64url of the length that its curve demands")]
    Point,
    /// The modulus is missing, malformed, or of a length that is unsafe or too slow.
    #[error("its n is missing, is not base64url, or does not have 2,048 to 8,192 bits")]
    Modulus,
    /// The exponent is missing or malformed.
    #[error("its e is missing, or is not base64url of an odd number between 3 and 4,294,967,295")]
    Exponent,
}

/// A set of keys that verify tokens, by their ids.
#[derive(Debug)]
pub struct Jwks {
    keys: BTreeMap<String, Key>,
    skipped: Vec<SkippedKey>,
}

/// A key that can be used.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) public: PublicKey,
    /// The only algorithm for which it may be used, if the set says so.
    algorithm: Option<Algorithm>,
}

impl Key {
    /// Reports whether tokens with this algorithm may be verified with this key.
    pub(super) fn allows(&self, algorithm: Algorithm) -> bool {
        self.public.fits(algorithm) && self.algorithm.is_none_or(|only| only == algorithm)
    }
}

impl Jwks {
    /// Reads a set. RSA keys, and EC keys on the curves P-256 and P-384, are used if they are for signatures
    /// and have an id. All others are skipped, see [`Self::skipped`].
    ///
    /// # Errors
    /// The set is malformed or too large, two keys have the same id, or no key can be used. The caller should
    /// then keep the set that it has.
    pub fn parse(json: &[u8]) -> Result<Self, JwksError> {
        if json.len() > SET_BYTES_MAX {
            return Err(JwksError::TooLong { found: json.len() });
        }
        let set = object(json, VALUES_MAX)?;
        let Some(Json::List(list)) = set.get("keys") else { return Err(JwksError::NoList) };
        if list.len() > KEYS_MAX {
            return Err(JwksError::TooManyKeys { found: list.len() });
        }
        let mut jwks = Self { keys: BTreeMap::new(), skipped: Vec::new() };
        let mut seen = BTreeSet::new();
        for (index, entry) in list.iter().enumerate() {
            let kid = kid(entry);
            if let Some(kid) = kid.filter(|kid| !seen.insert(*kid)) {
                return Err(JwksError::Twice { kid: beginning(kid) });
            }
            match key(entry) {
                Ok((kid, key)) => drop(jwks.keys.insert(kid.to_owned(), key)),
                Err(reason) => {
                    jwks.skipped.push(SkippedKey { position: index + 1, kid: kid.map(beginning), reason });
                }
            }
        }
        if jwks.keys.is_empty() { Err(JwksError::NoKey { skipped: jwks.skipped }) } else { Ok(jwks) }
    }

    /// Returns the number of keys that can be used.
    #[cfg(test)]
    pub(crate) fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Returns the keys that cannot be used, and why.
    pub fn skipped(&self) -> &[SkippedKey] {
        &self.skipped
    }

    pub(super) fn get(&self, kid: &str) -> Option<&Key> {
        self.keys.get(kid)
    }
}

fn kid(entry: &Json) -> Option<&str> {
    match entry {
        Json::Object(members) => members.get("kid")?.text().filter(|kid| !kid.is_empty()),
        _ => None,
    }
}

fn key(entry: &Json) -> Result<(&str, Key), SkipReason> {
    let Json::Object(members) = entry else { return Err(SkipReason::NotAnObject) };
    let text = |name: &str| members.get(name).and_then(Json::text);
    let kid = kid(entry).ok_or(SkipReason::NoKid)?;
    if kid.chars().count() > KID_CHARS_MAX {
        return Err(SkipReason::KidTooLong);
    }
    let read = match text("kty") {
        Some("RSA") => rsa,
        Some("EC") => ec,
        Some("oct") => return Err(SkipReason::Symmetric),
        _ => return Err(SkipReason::Type),
    };
    // The private exponent of RSA, and the private key of EC.
    if members.contains_key("d") {
        return Err(SkipReason::Private);
    }
    if !is_for_signatures(members) {
        return Err(SkipReason::Use);
    }
    let public = read(members)?;
    let algorithm = match members.get("alg") {
        None => None,
        Some(name) => Some(name.text().and_then(Algorithm::from_name).ok_or(SkipReason::Algorithm)?),
    };
    if algorithm.is_some_and(|algorithm| !public.fits(algorithm)) {
        return Err(SkipReason::Algorithm);
    }
    Ok((kid, Key { public, algorithm }))
}

fn is_for_signatures(members: &Object) -> bool {
    let has_use = members.get("use").is_none_or(|name| name.text() == Some("sig"));
    let has_operation = members.get("key_ops").is_none_or(|operations| match operations {
        Json::List(list) => list.iter().any(|operation| operation.text() == Some("verify")),
        _ => false,
    });
    has_use && has_operation
}

fn rsa(members: &Object) -> Result<PublicKey, SkipReason> {
    let n = number(members, "n").ok_or(SkipReason::Modulus)?;
    // ring rounds the number of bits up to whole bytes, so the first bit is checked here.
    let bits_2047 = n.len() == *MODULUS_BYTES.start() && n[0] < 0x80;
    if !MODULUS_BYTES.contains(&n.len()) || bits_2047 || is_even(&n) {
        return Err(SkipReason::Modulus);
    }
    let e = number(members, "e").ok_or(SkipReason::Exponent)?;
    if e.len() > EXPONENT_BYTES_MAX || is_even(&e) || *e == [1] {
        return Err(SkipReason::Exponent);
    }
    Ok(PublicKey::Rsa(RsaPublicKeyComponents { n, e }))
}

fn is_even(number: &[u8]) -> bool {
    number.last().is_none_or(|last| last % 2 == 0)
}

/// Reads a number. Some providers put a zero in front of it, though RFC 7518 (section 6.3.1.1) forbids that.
fn number(members: &Object, name: &str) -> Option<Box<[u8]>> {
    let bytes = bytes(members, name)?;
    let start = bytes.iter().position(|byte| *byte != 0)?;
    Some(bytes[start..].into())
}

fn ec(members: &Object) -> Result<PublicKey, SkipReason> {
    let curve = members.get("crv").and_then(Json::text).and_then(Curve::from_name);
    let curve = curve.ok_or(SkipReason::Curve)?;
    let mut point = vec![4];
    for name in ["x", "y"] {
        let coordinate = bytes(members, name).filter(|bytes| bytes.len() == curve.coordinate_bytes());
        point.extend(coordinate.ok_or(SkipReason::Point)?);
    }
    Ok(PublicKey::Ec(curve, point.into()))
}

fn bytes(members: &Object, name: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(members.get(name)?.text()?).ok()
}
