//! For tests of parsers: messages that a seeded generator garbled, the same in every run.

/// How many messages are made.
const MESSAGES: usize = 20_000;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit.max(1)
    }

    /// A byte. Every second one is among those that mean something to the parsers.
    fn byte(&mut self) -> u8 {
        const SPECIAL: &[u8] = b"\0,,==amnrscipyve2CD+/;\n\x01\x7f\xc3\xff";
        if self.below(2) == 0 { SPECIAL[self.below(SPECIAL.len())] } else { self.below(256) as u8 }
    }
}

/// Returns messages that are one to four small changes away from one of `legal`, and some of random bytes.
pub(crate) fn garbled(legal: &[&[u8]]) -> impl Iterator<Item = Vec<u8>> {
    let mut random = Random(0x7461_696c_7261_6365);
    (0..MESSAGES).map(move |number| {
        if number % 16 == 0 {
            return (0..random.below(64)).map(|_| random.byte()).collect();
        }
        let mut message = legal[random.below(legal.len())].to_vec();
        for _ in 0..=random.below(4) {
            garble(&mut message, &mut random);
        }
        message
    })
}

/// Changes, inserts, removes or repeats some bytes.
fn garble(message: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(message.len() + 1);
    let end = (at + random.below(8)).min(message.len());
    match random.below(5) {
        0 => message.insert(at, random.byte()),
        1 if at < message.len() => message[at] = random.byte(),
        2 => drop(message.drain(at..end)),
        3 => message.truncate(at),
        _ => message.extend_from_within(at..end),
    }
}
