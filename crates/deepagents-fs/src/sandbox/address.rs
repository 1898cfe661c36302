//! Addresses that do not belong to the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Returns whether an address belongs to the public internet and to another machine. Addresses in the IANA
/// special-purpose registries do not: loopback, private and link-local networks, documentation, multicast and so on.
/// Nor do public-looking addresses that a cloud reserves for its machines.
pub fn is_elsewhere(address: SocketAddr) -> bool {
    is_global(address.ip()) && !is_own(address)
}

fn is_global(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_global_v4(address),
        IpAddr::V6(address) => is_global_v6(address),
    }
}

fn is_global_v4(address: Ipv4Addr) -> bool {
    let special = match address.octets() {
        // "This network", private networks, loopback.
        [0 | 10 | 127, ..] | [172, 16..=31, ..] | [192, 168, ..] => true,
        // Carrier-grade NAT and link-local, where clouds serve credentials.
        [100, 64..=127, ..] | [169, 254, ..] => true,
        // Protocol assignments, documentation, relays, benchmarking.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18..=19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => true,
        // Azure's address for platform services.
        [168, 63, 129, 16] => true,
        // Multicast and reserved.
        [224..=255, ..] => true,
        _ => false,
    };
    !special
}

fn is_global_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // IPv4 addresses as seen from IPv6-only networks (NAT64).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            is_global_v4(Ipv4Addr::new(a, b, c, d))
        }
        // Protocol assignments, tunnels and documentation.
        [0x2001, 0..=0x01ff, ..] | [0x2001, 0x0db8, ..] | [0x2002, ..] | [0x3fff, 0..=0x0fff, ..] => false,
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

/// Returns whether a possibly public address belongs to this machine: then the kernel chooses that same address as the
/// source. Sends nothing.
#[allow(clippy::disallowed_methods, reason = "a socket that sends nothing")]
fn is_own(address: SocketAddr) -> bool {
    let any: SocketAddr =
        if address.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let answers_from = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    // If there is no route to the address, connecting reports that.
    answers_from.is_ok_and(|own| own.ip().to_canonical() == address.ip().to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_purpose_addresses_are_not_public() {
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "::ffff:168.63.129.16",
            "64:ff9b::a83f:8110",
            "169.254.169.254",
            "169.254.170.2",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.0.192",
            "192.0.2.1",
            "192.168.1.1",
            "198.19.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "fc00::1",
            "fd12::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "3fff::1",
        ] {
            assert!(!is_global(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "168.63.129.17",
            "172.32.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2606:4700::1111",
        ] {
            assert!(is_global(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn the_machines_own_addresses_are_recognised() {
        assert!(is_own("127.0.0.1:80".parse().unwrap()));
        assert!(!is_own("1.1.1.1:80".parse().unwrap()));
    }
}
