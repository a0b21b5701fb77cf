//! Base64 (RFC 4648): the standard alphabet with padding for bytes in JSON, and the URL-safe alphabet without
//! padding for topic ids, as Kafka's tools show them.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Appends `bytes` in the standard alphabet, padded.
pub(crate) fn encode_into(bytes: &[u8], out: &mut Vec<u8>) {
    encode(bytes, STANDARD, out);
    out.resize(out.len() + (3 - bytes.len() % 3) % 3, b'=');
}

/// Returns a topic id as Kafka writes it: 22 characters.
pub fn uuid(id: &[u8; 16]) -> String {
    url_safe(id)
}

/// Encodes in the URL-safe alphabet, without padding.
pub fn url_safe(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    encode(bytes, URL_SAFE, &mut out);
    out.iter().map(|&b| char::from(b)).collect()
}

fn encode(bytes: &[u8], alphabet: &[u8; 64], out: &mut Vec<u8>) {
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..=chunk.len() {
            out.push(alphabet[(bits >> (18 - 6 * at) & 63) as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_rfc() {
        for (plain, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut out = Vec::new();
            encode_into(plain.as_bytes(), &mut out);
            assert_eq!(out, expected.as_bytes());
        }
    }

    #[test]
    fn ids_are_url_safe_and_unpadded() {
        assert_eq!(uuid(&[0; 16]), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(uuid(&[0xff; 16]), "_____________________w");
    }
}
