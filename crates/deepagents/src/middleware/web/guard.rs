//! Which addresses are reached.

use std::net::{IpAddr, SocketAddr};

use deepagents_fs::sandbox::is_elsewhere;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::FetchError;

/// Letters of an address that are shown.
const SHOWN: usize = 1_000;

/// Lets only public addresses through, and those of hosts that are named.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// Hosts that may be anywhere, in lower case.
    private_hosts: Vec<String>,
}

impl Guard {
    pub(super) fn new(private_hosts: &[String]) -> Self {
        Self { private_hosts: private_hosts.iter().map(|host| bare(host)).collect() }
    }

    fn is_named(&self, host: &str) -> bool {
        self.private_hosts.contains(&bare(host))
    }

    /// Looks at an address before it is requested: names are looked at once they are resolved.
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
}

impl Guard {
    /// The addresses of a host that may be connected to.
    fn reachable(&self, host: &str, found: impl Iterator<Item = SocketAddr>) -> Result<Vec<SocketAddr>, FetchError> {
        let named = self.is_named(host);
        let reachable: Vec<_> = found.filter(|address| named || is_elsewhere((address.ip(), 80).into())).collect();
        if reachable.is_empty() {
            return Err(FetchError::Private { host: host.to_owned() });
        }
        Ok(reachable)
    }
}

/// The address without what it may hold of secrets.
pub(super) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail where there is no host, and then there is no user either.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let url = url.as_str();
    // A server that redirects writes the address: it is no place for a story.
    match url.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", url.get(..end).unwrap_or_default()),
        None => url.to_owned(),
    }
}

/// A host as it is compared: lower case, without brackets and a final dot.
fn bare(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_lowercase()
}

impl Resolve for Guard {
    /// The addresses that connections are made to: nobody resolves the name once more.
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
    fn of_the_addresses_of_a_name_only_public_ones_are_connected_to() {
        let guard = Guard::new(&["Intranet.example.".to_owned()]);
        let found: Vec<SocketAddr> =
            ["10.0.0.1:0", "[::ffff:169.254.169.254]:0", "1.1.1.1:0"].map(|a| a.parse().unwrap()).to_vec();
        assert_eq!(guard.reachable("a.example", found.iter().copied()).unwrap(), [found[2]]);
        let refused = guard.reachable("a.example", found[..2].iter().copied()).unwrap_err();
        assert_eq!(refused, FetchError::Private { host: "a.example".to_owned() });
        assert_eq!(guard.reachable("intranet.EXAMPLE", found.iter().copied()).unwrap(), found);
    }
}
