//! An address, or all addresses that begin with the same bits, as in `10.0.0.0/8`.

use std::net::IpAddr;

/// A set of addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// `192.0.2.7`, `10.0.0.0/8`, `2001:db8::/32`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let bits = bits_of(address);
        let prefix = match prefix {
            None => bits,
            Some(prefix) if prefix.bytes().all(|it| it.is_ascii_digit()) => prefix.parse().ok()?,
            Some(_) => return None,
        };
        (prefix <= bits).then_some(Self { address, prefix })
    }

    /// The length of the prefix that the address has in common with this network, if that is the whole one.
    ///
    /// An IPv4 client of a socket that listens on `[::]` has an address of IPv6, and is found by both.
    pub(super) fn matches(&self, address: IpAddr) -> Option<u8> {
        let is_in = |address: IpAddr| {
            bits_of(address) == bits_of(self.address)
                && differing(address, self.address).leading_zeros() >= u32::from(self.prefix)
        };
        (is_in(address.to_canonical()) || is_in(address)).then_some(self.prefix)
    }
}

const fn bits_of(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The bits in which two addresses of one family differ, from the top.
fn differing(one: IpAddr, other: IpAddr) -> u128 {
    let bits = |address| match address {
        IpAddr::V4(it) => u128::from(it.to_bits()) << 96,
        IpAddr::V6(it) => it.to_bits(),
    };
    bits(one) ^ bits(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(network: &str, address: &str) -> Option<u8> {
        let network = Network::parse(network).expect("a network");
        network.matches(address.parse().expect("an address"))
    }

    #[test]
    fn an_address_is_in_a_network_by_its_first_bits() {
        assert_eq!(matches("10.0.0.0/8", "10.255.0.1"), Some(8));
        assert_eq!(matches("10.0.0.0/8", "11.0.0.1"), None);
        assert_eq!(
            matches("10.1.2.3/8", "10.9.9.9"),
            Some(8),
            "the rest is not looked at"
        );
        assert_eq!(matches("192.0.2.7", "192.0.2.7"), Some(32));
        assert_eq!(matches("192.0.2.7", "192.0.2.6"), None);
        assert_eq!(matches("192.0.2.6/31", "192.0.2.7"), Some(31));
        assert_eq!(matches("0.0.0.0/0", "203.0.113.9"), Some(0));
        assert_eq!(matches("0.0.0.0/0", "2001:db8::1"), None, "another family");
        assert_eq!(matches("::/0", "2001:db8::1"), Some(0));
        assert_eq!(matches("2001:db8::/32", "2001:db8:ffff::1"), Some(32));
        assert_eq!(matches("2001:db8::/32", "2001:db9::1"), None);
        assert_eq!(matches("10.0.0.0/8", "::ffff:10.1.1.1"), Some(8));
        assert_eq!(matches("::ffff:10.0.0.0/104", "::ffff:10.1.1.1"), Some(104));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "ten",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/",
            "10.0.0/8",
            "::/129",
            "10.0.0.1:80",
            "/8",
        ] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
