//! Topic ids as text.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Returns a topic id as Kafka's tools show it: 22 characters.
pub(super) fn id_text(id: &[u8; 16]) -> String {
    URL_SAFE_NO_PAD.encode(id)
}

#[cfg(test)]
mod tests {
    use super::id_text;

    #[test]
    fn ids_are_url_safe_and_unpadded() {
        assert_eq!(id_text(&[0; 16]), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(id_text(&[0xff; 16]), "_____________________w");
    }
}
