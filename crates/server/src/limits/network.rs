//! IP networks: parsing and matching for settings, and grouping of addresses for limits.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An address, or a network in CIDR notation: `10.0.0.0/8`, `192.0.2.7`, `fd00::/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    address: IpAddr,
    /// Prefix length in bits.
    bits: u8,
}

/// The text is not an address or a network. The error message states the expected format, because
/// settings validation shows it to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("addresses and networks, such as \"192.0.2.7\" or \"10.0.0.0/8\"")]
pub struct InvalidNetwork;

impl Network {
    /// Returns whether the network contains the address. Treats an IPv4-mapped IPv6 address as
    /// IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let kept = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                (ours.to_bits() ^ theirs.to_bits()) & kept == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let kept = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                (ours.to_bits() ^ theirs.to_bits()) & kept == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Network, InvalidNetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().map_err(|_| InvalidNetwork)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| InvalidNetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most { Err(InvalidNetwork) } else { Ok(Network { address, bits }) }
    }
}

impl TryFrom<String> for Network {
    type Error = InvalidNetwork;

    fn try_from(text: String) -> Result<Network, InvalidNetwork> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> String {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// The unit that limits count by: an IPv4 address, or an IPv6 /64 network. The holder of one IPv6
/// address usually controls its whole /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AddressGroup(IpAddr);

impl AddressGroup {
    pub fn of(address: IpAddr) -> AddressGroup {
        AddressGroup(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                Ipv6Addr::from_bits(network).into()
            }
            address => address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn network_contains_addresses_with_its_prefix_only() {
        for (net, inside, outside) in [
            ("10.0.0.0/8", "10.255.1.2", "11.0.0.1"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("192.0.2.7/32", "::ffff:192.0.2.7", "::1"),
            ("0.0.0.0/0", "203.0.113.9", "2001:db8::1"),
            ("fd00::/8", "fdab::1", "fe80::1"),
            ("::1", "::1", "::2"),
            ("::/0", "2001:db8::1", "203.0.113.9"),
        ] {
            assert!(network(net).contains(address(inside)), "{inside} is in {net}");
            assert!(!network(net).contains(address(outside)), "{outside} is not in {net}");
        }
    }

    #[test]
    fn invalid_network_is_refused_and_valid_network_round_trips() {
        for bad in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "localhost", "10.0.0.0/", "10.0.0.0/-1", "/8"] {
            assert_eq!(bad.parse::<Network>(), Err(InvalidNetwork), "{bad}");
        }
        assert_eq!(network("10.0.0.0/8").to_string(), "10.0.0.0/8");
        assert_eq!(network("::1").to_string(), "::1/128");
    }

    #[test]
    fn addresses_in_one_ipv6_64_network_are_one_group() {
        let same =
            |one: &str, other: &str| AddressGroup::of(address(one)) == AddressGroup::of(address(other));
        assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
        assert!(!same("2001:db8:1:2::1", "2001:db8:1:3::1"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
    }
}
