//! Networks of addresses.

use std::net::IpAddr;

/// Number of bits of an IPv6 address. IPv4 addresses are compared as the first bits of as many.
const BITS: u32 = 128;

/// The addresses that share the first `bits` bits with `base`. An IPv4 network that is written as an IPv6
/// network (`::ffff:10.0.0.0/104`) is an IPv4 network. No network of IPv6 contains an IPv4 address, not even
/// `::/0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    base: IpAddr,
    bits: u8,
}

impl Network {
    /// `None` if the prefix is longer than the address.
    pub(crate) fn new(base: IpAddr, bits: u8) -> Option<Self> {
        if bits > width(base) {
            return None;
        }
        let mapped = match base {
            IpAddr::V6(v6) => v6.to_ipv4_mapped().zip(bits.checked_sub(96)),
            IpAddr::V4(_) => None,
        };
        let (base, bits) = mapped.map_or((base, bits), |(v4, bits)| (v4.into(), bits));
        Some(Self { base, bits })
    }

    /// The network of one address.
    pub(crate) fn of(address: IpAddr) -> Option<Self> {
        Self::new(address, width(address))
    }

    /// Reports whether the base has bits behind the prefix: `10.1.2.3/8`.
    pub(crate) fn has_rest(self) -> bool {
        aligned(self.base).checked_shl(self.bits.into()).unwrap_or(0) != 0
    }

    /// Reports whether it contains an address in canonical form (`IpAddr::to_canonical`).
    pub(crate) fn contains(self, address: IpAddr) -> bool {
        let difference = aligned(self.base) ^ aligned(address);
        let prefix = difference.checked_shr(BITS - u32::from(self.bits)).unwrap_or(0);
        self.base.is_ipv4() == address.is_ipv4() && prefix == 0
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address as the first bits of a number.
fn aligned(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << (BITS - 32),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}
