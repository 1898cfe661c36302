//! The proxy set in the environment.

use crate::model_choice::Env;

/// Returns the proxy for an address, from `HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY`, unless `NO_PROXY` names its
/// host; lower-case names work too. This machine itself is never reached through a proxy.
pub(crate) fn for_address(url: &str, env: Env) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let host = host(rest);
    if is_local(&host) || excluded(&host, env) {
        return None;
    }
    let own = if scheme.eq_ignore_ascii_case("https") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    let proxy = variable(own, env).or_else(|| variable("ALL_PROXY", env))?;
    Some(if proxy.contains("://") { proxy } else { format!("http://{proxy}") })
}

fn variable(name: &str, env: Env) -> Option<String> {
    env(&name.to_lowercase()).or_else(|| env(name))
}

/// Returns the host from what follows the scheme, in lower case, without user, port and path.
fn host(rest: &str) -> String {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host.to_lowercase()
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host == "::1" || host.starts_with("127.")
}

/// Whether `NO_PROXY` names the host, or a domain that contains it.
fn excluded(host: &str, env: Env) -> bool {
    let list = variable("NO_PROXY", env).unwrap_or_default().to_lowercase();
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let domain = entry.trim_start_matches('*').trim_start_matches('.');
        domain.is_empty() || host == domain || host.strip_suffix(domain).is_some_and(|head| head.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(url: &str, vars: &[(&str, &str)]) -> Option<String> {
        for_address(url, &|name| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_proxy_for_the_scheme_is_used_unless_the_host_is_excluded() {
        let vars = [("HTTPS_PROXY", "proxy:3128"), ("no_proxy", "intern.example, .other.example")];
        assert_eq!(proxy("https://api.example/v1", &vars).as_deref(), Some("http://proxy:3128"));
        assert_eq!(proxy("http://api.example/v1", &vars), None);
        assert_eq!(proxy("https://a.intern.example/v1", &vars), None);
        assert_eq!(proxy("https://other.example:8443", &vars), None);
        assert!(proxy("https://notintern.example", &vars).is_some());
        assert_eq!(proxy("https://api.example", &[("ALL_PROXY", "http://p"), ("NO_PROXY", "*")]), None);
    }

    #[test]
    fn localhost_bypasses_the_proxy() {
        for url in ["http://localhost:8080/v1", "http://127.0.0.1:1", "http://[::1]:8080/v1"] {
            assert_eq!(proxy(url, &[("http_proxy", "http://p")]), None, "{url}");
        }
    }
}
