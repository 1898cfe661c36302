//! Allowed webhook addresses.

use std::net::{IpAddr, Ipv6Addr};

use deepagents::fs::sandbox::is_elsewhere;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;

/// Where webhooks may be sent, and how they are signed. By default only HTTPS URLs with public internet addresses are
/// allowed.
///
/// ```
/// use deepagents_server::WebhookPolicy;
///
/// let policy = WebhookPolicy::default().secret("s3cret").allow_host("hooks.internal");
/// ```
#[derive(Clone, Debug, Default)]
pub struct WebhookPolicy {
    pub(super) secret: Option<String>,
    loopback: bool,
    hosts: Vec<String>,
}

impl WebhookPolicy {
    /// Signs each request. The header `x-deepagents-signature` is `t=SECONDS,v1=HEX`, where HEX is the HMAC-SHA256 of
    /// the seconds, a dot and the body.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// Allows this machine, also without TLS.
    #[must_use]
    pub fn allow_loopback(mut self) -> Self {
        self.loopback = true;
        self
    }

    /// Allows a host with private addresses, over HTTPS.
    #[must_use]
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        let host = host.into();
        // Parsed like the addresses to which it is compared: an IPv6 address and an international name have several
        // spellings.
        let given =
            if host.parse::<Ipv6Addr>().is_ok() { format!("https://[{host}]") } else { format!("https://{host}") };
        let address = Url::parse(&given).ok().filter(|address| address.port().is_none() && address.path() == "/");
        self.hosts.push(address.and_then(|address| bare_host(&address)).unwrap_or(host));
        self
    }

    /// Rejects a URL that is recognisably not allowed, without a DNS lookup.
    pub(super) fn check(&self, url: &str) -> Result<(), String> {
        // The client parses it the same way. To others, `https://127.1/` and `https://2130706433/` have names as hosts.
        let address = Url::parse(url).map_err(|error| format!("`{url}` is not a valid address: {error}"))?;
        let host = bare_host(&address).ok_or("a webhook needs a host")?;
        if !address.username().is_empty() || address.password().is_some() {
            return Err("a webhook's address may not have a user or password".to_owned());
        }
        let is_tls = address.scheme() == "https";
        let local = is_loopback_name(&host) || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback());
        if local && self.loopback && matches!(address.scheme(), "http" | "https") {
            return Ok(());
        }
        if !is_tls {
            return Err("a webhook must be an https:// address".to_owned());
        }
        if local {
            return Err("webhooks to this machine are not allowed".to_owned());
        }
        if let Ok(ip) = host.parse::<IpAddr>()
            && !self.allows(&host, ip)
        {
            return Err("webhooks to private addresses are not allowed".to_owned());
        }
        Ok(())
    }

    /// Whether requests to a host may connect to this address.
    fn allows(&self, host: &str, ip: IpAddr) -> bool {
        // An IPv4 address may be written as an IPv6 address.
        let ip = ip.to_canonical();
        if ip.is_loopback() {
            return self.loopback;
        }
        self.hosts.iter().any(|known| known == host) || is_elsewhere((ip, 443).into())
    }
}

/// A DNS resolver for the client's connections. It is the only lookup, so the checked addresses are the ones used. A
/// name with any disallowed address is rejected.
#[derive(Debug)]
pub(super) struct AllowedAddresses(pub(super) WebhookPolicy);

impl Resolve for AllowedAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, host) = (self.0.clone(), name.as_str().to_ascii_lowercase());
        Box::pin(async move {
            let found: Vec<_> = lookup_host((host.as_str(), 0)).await?.collect();
            if found.is_empty() || !found.iter().all(|address| policy.allows(&host, address.ip())) {
                return Err("the host has an address that webhooks may not be sent to".into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Returns the host of an address in lower case, an IPv6 address without its brackets.
fn bare_host(address: &Url) -> Option<String> {
    let host = address.host_str().filter(|host| !host.is_empty())?;
    Some(host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase())
}

fn is_loopback_name(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_webhook_host_resolving_to_a_disallowed_address_is_rejected() {
        let resolve =
            async |policy: WebhookPolicy| AllowedAddresses(policy).resolve("localhost".parse().unwrap()).await;
        assert!(resolve(WebhookPolicy::default()).await.is_err());
        assert!(resolve(WebhookPolicy::default().allow_host("localhost")).await.is_err());
        let found: Vec<_> = resolve(WebhookPolicy::default().allow_loopback()).await.unwrap().collect();
        assert!(!found.is_empty() && found.iter().all(|address| address.ip().is_loopback()));
    }

    #[test]
    fn webhooks_go_only_to_public_addresses_unless_others_are_allowed() {
        let strict = WebhookPolicy::default();
        for good in ["https://example.com/hook", "https://93.184.216.34/x", "https://[2606:2800:220:1::1]/x"] {
            assert!(strict.check(good).is_ok(), "{good}");
        }
        for bad in [
            "http://example.com/",
            "https://localhost/",
            "https://a.localhost/",
            "https://127.0.0.1/",
            "https://127.1.2.3:8443/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f.0.0.1/",
            "https://%31%32%37.0.0.1/",
            "https://10.1/",
            "https://example.com:99999/",
            "https://10.0.0.1/",
            "https://169.254.169.254/latest",
            "https://192.168.1.1/",
            "https://100.64.0.1/",
            "https://168.63.129.16/",
            "https://0.0.0.0/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[fd00::1]/",
            "https://[fe80::1]/",
            "https://user:pass@example.com/",
            "ftp://example.com/",
            "/relative",
            "",
        ] {
            assert!(strict.check(bad).is_err(), "{bad}");
        }
        let local = WebhookPolicy::default().allow_loopback();
        assert!(local.check("http://127.0.0.1:9/hook").is_ok());
        assert!(local.check("http://10.0.0.1/").is_err());
        for (host, url) in [
            ("10.0.0.1", "https://10.1/"),
            ("10.1", "https://10.0.0.1/"),
            ("fd00:0:0::1", "https://[fd00::1]/"),
            ("[FD00::1]", "https://[fd00:0::0:1]/"),
        ] {
            let allowed = WebhookPolicy::default().allow_host(host);
            assert_eq!(allowed.check(url), Ok(()), "{host}");
            assert!(allowed.check("https://10.0.0.2/").is_err(), "{host}");
        }
    }
}
