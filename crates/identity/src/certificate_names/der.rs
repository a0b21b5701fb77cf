//! Reads DER (X.690), as far as the way to a certificate's names needs it. Only definite lengths in their
//! shortest form are accepted, and only tags of one byte. Everything else is `None`.

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// The tag of the version, which is explicit.
const VERSION: u8 = 0xa0;

/// These bits of a tag say that it goes on in the next byte.
const LONG_TAG: u8 = 0x1f;

/// An element.
#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
    /// The whole element, with its tag and length.
    pub(super) encoded: &'a [u8],
}

/// Reads elements one after another.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the next element.
    pub(super) fn element(&mut self) -> Option<Element<'a>> {
        let all = self.0;
        let (tag, rest) = all.split_first()?;
        let (len, rest) = length(rest)?;
        let (content, after) = rest.split_at_checked(len)?;
        self.0 = after;
        let encoded = &all[..all.len() - after.len()];
        (tag & LONG_TAG != LONG_TAG).then_some(Element { tag: *tag, content, encoded })
    }

    /// Reads the next element, which must have this tag, and returns its content.
    pub(super) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.element().filter(|element| element.tag == tag).map(|element| element.content)
    }

    /// Skips the next element if it has this tag.
    pub(super) fn skip_if(&mut self, tag: u8) -> Option<()> {
        if self.0.first() == Some(&tag) { self.element().map(drop) } else { Some(()) }
    }
}

/// Reads a certificate (RFC 5280, section 4.1) up to its subject, which is the next element.
pub(super) fn at_subject(certificate: &[u8]) -> Option<Reader<'_>> {
    let mut file = Reader::new(certificate);
    let mut certificate = Reader::new(file.expect(SEQUENCE)?);
    let mut signed = Reader::new(certificate.expect(SEQUENCE)?);
    certificate.expect(SEQUENCE)?; // The algorithm.
    certificate.expect(BIT_STRING)?; // The signature.
    if !file.is_at_end() || !certificate.is_at_end() {
        return None;
    }
    signed.skip_if(VERSION)?;
    signed.expect(INTEGER)?; // The serial number.
    signed.expect(SEQUENCE)?; // The algorithm.
    signed.expect(SEQUENCE)?; // The issuer.
    signed.expect(SEQUENCE)?; // The times between which it is valid.
    Some(signed)
}

/// Reads a length and returns what follows it.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    if *first < 0x80 {
        return Some((usize::from(*first), rest));
    }
    // A certificate has less than 4 GiB.
    let count = usize::from(first & 0x7f);
    if !(1..=4).contains(&count) {
        return None;
    }
    let (digits, rest) = rest.split_at_checked(count)?;
    let length = digits.iter().fold(0, |length: u32, digit| length << 8 | u32::from(*digit));
    let is_shortest = digits[0] != 0 && length >= 0x80;
    is_shortest.then(|| usize::try_from(length).ok().map(|length| (length, rest)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: &[u8]) -> Option<usize> {
        Reader::new(bytes).expect(SEQUENCE).map(<[u8]>::len)
    }

    #[test]
    fn lengths_are_accepted_only_in_their_shortest_form() {
        let long = |header: &[u8], len: usize| [&[SEQUENCE], header, &vec![0; len]].concat();
        for (bytes, expected) in [
            (long(&[0], 0), Some(0)),
            (long(&[0x7f], 0x7f), Some(0x7f)),
            (long(&[0x81, 0x80], 0x80), Some(0x80)),
            (long(&[0x82, 1, 0], 0x100), Some(0x100)),
            (long(&[0x83, 1, 0, 0], 0x1_0000), Some(0x1_0000)),
            (long(&[0x81, 0x7f], 0x7f), None),
            (long(&[0x82, 0, 0x80], 0x80), None),
            (long(&[0x80], 2), None),
            (long(&[0x85, 0, 0, 0, 0, 0], 0), None),
            (long(&[0xff], 0x200), None),
            (long(&[0x84, 0xff, 0xff, 0xff, 0xff], 5), None),
            (long(&[5], 4), None),
            (long(&[0x82, 1], 0), None),
            (vec![SEQUENCE], None),
            (vec![], None),
            (vec![SET, 0], None),
        ] {
            assert_eq!(content(&bytes), expected, "{:?}", &bytes[..bytes.len().min(8)]);
        }
        assert!(Reader::new(&[0x3f, 0x20, 0]).element().is_none(), "a long tag");
        assert!(Reader::new(&[0x1f, 0]).element().is_none(), "a long tag");
    }
}
