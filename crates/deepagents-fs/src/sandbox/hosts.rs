//! Hosts that commands may reach.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Default ports of a pattern: HTTP and HTTPS.
const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// A pattern for hosts of an [allow-list](super::Network::AllowList).
///
/// * `example.org` matches this host;
/// * `*.example.org` matches every host below it, at any depth, but not `example.org` itself;
/// * `192.0.2.1` and `[2001:db8::1]` match addresses, for commands that use them instead of a name.
///
/// A port may follow, as in `example.org:8443`; without one, ports 80 and 443 match. Case and a trailing dot are
/// ignored. Write non-ASCII names in their ASCII form (`xn--…`).
///
/// A name gives access only to public internet addresses. If it resolves to an address of this machine or of a private
/// network, the connection is refused unless that address, with the port, is on the list as well. The name `localhost`
/// stands for this machine and needs no such entry.
///
/// ```
/// use deepagents_fs::sandbox::HostPattern;
/// let below: HostPattern = "*.Example.org".parse()?;
/// assert_eq!(below.to_string(), "*.example.org");
/// assert!(below.covers("files.example.org.", 443) && !below.covers("example.org", 443));
/// assert!(!below.covers("files.example.org", 22));
/// assert!("https://example.org/".parse::<HostPattern>().is_err());
/// # Ok::<(), deepagents_fs::sandbox::HostPatternError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPattern {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Hosts {
    One(Host),
    Below(String),
}

/// A text is not a valid host pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid host for an allow-list: {reason}")]
pub struct HostPatternError {
    /// The text.
    pub text: String,
    /// The problem, and what to write instead.
    pub reason: &'static str,
}

impl HostPattern {
    /// Returns whether a host, given as a name or an address, matches at a port.
    pub fn covers(&self, host: &str, port: u16) -> bool {
        Host::parse(host).is_ok_and(|host| self.covers_target(&Target { host, port }))
    }

    /// Returns whether the pattern is for exactly this host, on any port.
    #[cfg(unix)]
    pub(crate) fn names(&self, host: &Host) -> bool {
        matches!(&self.hosts, Hosts::One(own) if own == host)
    }

    pub(crate) fn covers_target(&self, target: &Target) -> bool {
        let ports = match self.port {
            Some(port) => port == target.port,
            None => DEFAULT_PORTS.contains(&target.port),
        };
        ports
            && match (&self.hosts, &target.host) {
                (Hosts::One(host), target) => host == target,
                (Hosts::Below(parent), Host::Name(name)) => {
                    name.strip_suffix(parent.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
                }
                (Hosts::Below(_), Host::Address(_)) => false,
            }
    }
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, HostPatternError> {
        let refuse = |reason| HostPatternError { text: text.to_owned(), reason };
        if text.contains("://") || text.contains('/') {
            return Err(refuse("write the host alone, without scheme and path"));
        }
        let bare = text.parse::<Ipv6Addr>().is_ok();
        let (host, port) = if bare { (text, None) } else { split_port(text).map_err(refuse)? };
        let hosts = match host.strip_prefix("*.") {
            Some(parent) => match Host::parse(parent).map_err(refuse)? {
                Host::Name(name) => Hosts::Below(name),
                Host::Address(_) => return Err(refuse("an address has no subdomains")),
            },
            None if host.contains('*') => {
                return Err(refuse("a star is only allowed at the front, as in `*.example.org`"));
            }
            None => Hosts::One(Host::parse(host).map_err(refuse)?),
        };
        if matches!(&hosts, Hosts::One(Host::Address(address)) if address.is_unspecified() || address.is_multicast()) {
            return Err(refuse("the address does not belong to a single host"));
        }
        Ok(Self { hosts, port })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::One(host) => write!(f, "{host}")?,
            Hosts::Below(parent) => write!(f, "*.{parent}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> Self {
        pattern.to_string()
    }
}

impl TryFrom<String> for HostPattern {
    type Error = HostPatternError;

    fn try_from(text: String) -> Result<Self, HostPatternError> {
        text.parse()
    }
}

/// A host in canonical form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    /// In lower case, without a trailing dot.
    Name(String),
    /// An IPv4-mapped IPv6 address is represented as the IPv4 address.
    Address(IpAddr),
}

impl Host {
    /// Parses a name, an IPv4 address, or an IPv6 address with or without brackets.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bracketed.unwrap_or(text).parse::<Ipv6Addr>() {
            return Ok(Self::Address(IpAddr::from(address).to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.is_empty() {
            return Err("a host is missing");
        }
        if name.len() > 253 {
            return Err("a name may have at most 253 characters");
        }
        if !name.is_ascii() {
            return Err("write names beyond ASCII in their ASCII form, `xn--…`");
        }
        for label in name.split('.') {
            if label.is_empty() || label.len() > 63 {
                return Err("the parts of a name between the dots must have 1 to 63 characters");
            }
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            if !label.bytes().all(allowed) || label.starts_with('-') || label.ends_with('-') {
                return Err("a name may only contain letters, digits, `-` and `_`, with dots between its parts");
            }
        }
        // The system resolver would take `127.1`, `0x7f000001` and `2130706433` for addresses.
        let last = name.rsplit('.').next().unwrap_or_default();
        let hexadecimal = last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if hexadecimal || last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("write an IPv4 address as four decimal numbers without leading zeros");
        }
        Ok(Self::Name(name))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Target of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

impl Target {
    /// Parses `host:port`, as in a request. `default_port` applies if there is no port.
    #[cfg(unix)]
    pub(crate) fn parse(text: &str, default_port: Option<u16>) -> Result<Self, &'static str> {
        let (host, port) = split_port(text)?;
        let port = port.or(default_port).ok_or("the port is missing")?;
        Ok(Self { host: Host::parse(host)?, port })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Splits a host from the port after it. The colons of an IPv6 address must be in brackets.
fn split_port(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = match text.rsplit_once(':') {
        Some((_, behind)) if behind.contains(']') => (text, None),
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    if host.starts_with('[') != host.ends_with(']') || (host.contains(':') && !host.starts_with('[')) {
        return Err("write an IPv6 address in brackets, with the port after them");
    }
    let Some(port) = port else { return Ok((host, None)) };
    let number = port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok()).flatten();
    match number {
        Some(1..) => Ok((host, number)),
        _ => Err("a port is a number from 1 to 65535"),
    }
}
