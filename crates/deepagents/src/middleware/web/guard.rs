//! Restricts the addresses to which connections are made.

use std::net::{IpAddr, SocketAddr};

use deepagents_fs::sandbox::is_elsewhere;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::FetchError;
use crate::text::truncated;

/// Maximum number of characters of a URL to show.
const MAX_SHOWN_CHARS: usize = 1_000;

/// Allows only public addresses and those of the named hosts.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// Hosts that may have any address, in lower case.
    private_hosts: Vec<String>,
}

impl Guard {
    pub(super) fn new(private_hosts: &[String]) -> Self {
        Self { private_hosts: private_hosts.iter().map(|host| bare(host)).collect() }
    }

    fn is_named(&self, host: &str) -> bool {
        self.private_hosts.contains(&bare(host))
    }

    /// Checks a URL before it is requested; host names are checked once they are resolved.
    pub(super) fn check(&self, url: &Url) -> Result<(), FetchError> {
        let bad = |reason: &str| Err(FetchError::BadUrl { url: shown(url), reason: reason.to_owned() });
        if !matches!(url.scheme(), "http" | "https") {
            return bad("only http and https are fetched");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return bad("it holds a user or a password");
        }
        let Some(host) = url.host_str() else { return bad("it names no host") };
        match bare(host).parse::<IpAddr>() {
            Ok(address) if !self.is_named(host) && !is_elsewhere((address, 80).into()) => {
                Err(FetchError::Private { host: host.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Returns the addresses of a host to which connections are allowed.
    fn reachable(&self, host: &str, found: impl Iterator<Item = SocketAddr>) -> Result<Vec<SocketAddr>, FetchError> {
        let named = self.is_named(host);
        let reachable: Vec<_> = found.filter(|address| named || is_elsewhere((address.ip(), 80).into())).collect();
        if reachable.is_empty() {
            return Err(FetchError::Private { host: host.to_owned() });
        }
        Ok(reachable)
    }
}

/// Returns a URL without secrets, for display.
pub(super) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // These fail only without a host, and then there are no credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    // A redirecting server chooses the URL, so limit how much text it can contain.
    truncated(url.as_str(), MAX_SHOWN_CHARS, "…")
}

/// Normalizes a host for comparison: lower case, without brackets and a trailing dot.
fn bare(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_lowercase()
}

impl Resolve for Guard {
    /// Returns the addresses that are then connected to: the name is not resolved again.
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, host) = (self.clone(), name.as_str().to_owned());
        Box::pin(async move {
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            Ok(Box::new(guard.reachable(&host, found)?.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_of_a_host_are_connected_to() {
        let guard = Guard::new(&["Intranet.example.".to_owned()]);
        let found: Vec<SocketAddr> =
            ["10.0.0.1:0", "[::ffff:169.254.169.254]:0", "1.1.1.1:0"].map(|a| a.parse().unwrap()).to_vec();
        assert_eq!(guard.reachable("a.example", found.iter().copied()).unwrap(), [found[2]]);
        let refused = guard.reachable("a.example", found[..2].iter().copied()).unwrap_err();
        assert_eq!(refused, FetchError::Private { host: "a.example".to_owned() });
        assert_eq!(guard.reachable("intranet.EXAMPLE", found.iter().copied()).unwrap(), found);
    }
}
