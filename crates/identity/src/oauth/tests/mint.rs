//! Keys that sign, and the tokens and key sets that are made with them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512,
    RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};

use crate::oauth::{Jwks, Token, TokenError, TokenSettings, TokenValidator};

/// A time within all tokens of [`claims`], in milliseconds.
pub(super) const NOW_MS: i64 = 1_500_000;

pub(super) enum SigningKey {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
}

impl SigningKey {
    pub(super) fn rsa() -> Self {
        Self::from_pkcs8(include_bytes!("../../../tests/fixtures/keys/rsa-one.pk8"))
    }

    pub(super) fn other_rsa() -> Self {
        Self::from_pkcs8(include_bytes!("../../../tests/fixtures/keys/rsa-other.pk8"))
    }

    fn from_pkcs8(key: &[u8]) -> Self {
        Self::Rsa(Box::new(RsaKeyPair::from_pkcs8(key).unwrap()))
    }

    pub(super) fn p256() -> Self {
        let (random, curve) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let key = EcdsaKeyPair::generate_pkcs8(curve, &random).unwrap();
        Self::P256(EcdsaKeyPair::from_pkcs8(curve, key.as_ref(), &random).unwrap())
    }

    pub(super) fn p384() -> Self {
        let (random, curve) = (SystemRandom::new(), &ECDSA_P384_SHA384_FIXED_SIGNING);
        let key = EcdsaKeyPair::generate_pkcs8(curve, &random).unwrap();
        Self::P384(EcdsaKeyPair::from_pkcs8(curve, key.as_ref(), &random).unwrap())
    }

    /// The public key, as an entry of a key set.
    pub(super) fn jwk(&self, kid: &str) -> Value {
        let ec = |curve: &str, key: &EcdsaKeyPair| {
            let (x, y) = key.public_key().as_ref()[1..].split_at(key.public_key().as_ref().len() / 2);
            json!({ "kty": "EC", "crv": curve, "kid": kid, "x": base64(x), "y": base64(y), "use": "sig" })
        };
        match self {
            Self::Rsa(key) => {
                let public: RsaPublicKeyComponents<Vec<u8>> = key.public().into();
                let (n, e) = (base64(&public.n), base64(&public.e));
                json!({ "kty": "RSA", "kid": kid, "n": n, "e": e, "use": "sig" })
            }
            Self::P256(key) => ec("P-256", key),
            Self::P384(key) => ec("P-384", key),
        }
    }

    /// The bytes of the public key, which everybody may know.
    pub(super) fn public_bytes(&self) -> &[u8] {
        match self {
            Self::Rsa(key) => key.public_key().as_ref(),
            Self::P256(key) | Self::P384(key) => key.public_key().as_ref(),
        }
    }

    fn sign(&self, algorithm: &str, text: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        let rsa: &dyn ring::signature::RsaEncoding = match algorithm {
            "RS384" => &RSA_PKCS1_SHA384,
            "RS512" => &RSA_PKCS1_SHA512,
            "PS256" => &RSA_PSS_SHA256,
            "PS384" => &RSA_PSS_SHA384,
            "PS512" => &RSA_PSS_SHA512,
            _ => &RSA_PKCS1_SHA256,
        };
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(rsa, &random, text, &mut signature).unwrap();
                signature
            }
            Self::P256(key) | Self::P384(key) => key.sign(&random, text).unwrap().as_ref().to_vec(),
        }
    }

    /// A token with this algorithm and the usual header.
    pub(super) fn token(&self, kid: &str, algorithm: &str, claims: &Value) -> String {
        let header = json!({ "typ": "JWT", "alg": algorithm, "kid": kid });
        self.raw(algorithm, &header.to_string(), &claims.to_string())
    }

    /// A token of any texts.
    pub(super) fn raw(&self, algorithm: &str, header: &str, claims: &str) -> String {
        let signed = unsigned(header, claims);
        format!("{signed}.{}", base64(&self.sign(algorithm, signed.as_bytes())))
    }
}

/// The first two parts of a token.
pub(super) fn unsigned(header: &str, claims: &str) -> String {
    format!("{}.{}", base64(header.as_bytes()), base64(claims.as_bytes()))
}

pub(super) fn decoded(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}

pub(super) fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Claims that are valid at [`NOW_MS`].
pub(super) fn claims() -> Value {
    json!({
        "iss": "https://idp", "aud": "kafka", "sub": "alice", "iat": 1_000, "nbf": 1_000, "exp": 2_000,
        "scope": "read write", "jti": "x",
    })
}

pub(super) fn key_set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

/// A validator for [`claims`], with other settings.
pub(super) fn validator(change: impl FnOnce(&mut TokenSettings)) -> TokenValidator {
    let mut settings = TokenSettings::new("https://idp", &["events", "kafka"]);
    change(&mut settings);
    TokenValidator::new(settings).unwrap()
}

/// A key set of these keys.
pub(super) fn set(keys: &[Value]) -> Jwks {
    Jwks::parse(key_set(keys).as_bytes()).unwrap()
}

/// A signing key, with its key set, in which its id is `k`.
pub(super) struct Signer {
    pub(super) key: SigningKey,
    pub(super) keys: Jwks,
}

impl Signer {
    pub(super) fn new() -> Self {
        let key = SigningKey::p256();
        let keys = set(&[key.jwk("k")]);
        Self { key, keys }
    }

    pub(super) fn validate(&self, token: &str) -> Result<Token, TokenError> {
        validator(|_| ()).validate(token, &self.keys, NOW_MS)
    }

    pub(super) fn claims(&self, claims: &Value) -> Result<Token, TokenError> {
        self.validate(&self.key.token("k", "ES256", claims))
    }

    pub(super) fn header(&self, header: &str) -> Result<Token, TokenError> {
        self.validate(&self.key.raw("ES256", header, &claims().to_string()))
    }
}

/// [`claims`] with one of them changed.
pub(super) fn with(claim: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[claim] = value;
    claims
}

/// [`claims`] without one of them.
pub(super) fn without(claim: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(claim);
    claims
}

/// A generator of pseudo-random numbers (SplitMix64), for tests that try many inputs.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % bound as u64) as usize
    }
}
