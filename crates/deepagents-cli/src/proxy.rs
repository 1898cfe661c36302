//! The proxy set in the environment.

use crate::model_choice::Env;

/// Returns the proxy for an address, from `HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY`, unless `NO_PROXY` names its
/// host; lower-case names work too. This machine itself is never reached through a proxy.
pub(crate) fn for_address(url: &str, env: Env) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (own, usual_port) =
        if scheme.eq_ignore_ascii_case("https") { ("HTTPS_PROXY", "443") } else { ("HTTP_PROXY", "80") };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default().to_lowercase();
    let (host, port) = host_and_port(authority.rsplit('@').next().unwrap_or_default());
    if is_local(host) || excluded(host, port.unwrap_or(usual_port), env) {
        return None;
    }
    let proxy = variable(own, env).or_else(|| variable("ALL_PROXY", env))?;
    Some(if proxy.contains("://") { proxy } else { format!("http://{proxy}") })
}

fn variable(name: &str, env: Env) -> Option<String> {
    env(&name.to_lowercase()).or_else(|| env(name))
}

/// Splits a host from its port. An IPv6 address with a port is in brackets.
fn host_and_port(text: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        return (host, rest.strip_prefix(':'));
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (text, None),
    }
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host == "::1" || host.starts_with("127.")
}

/// Whether `NO_PROXY` names the host, or a domain that contains it. An entry with a port excludes only that port.
fn excluded(host: &str, port: &str, env: Env) -> bool {
    let list = variable("NO_PROXY", env).unwrap_or_default().to_lowercase();
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let (domain, only) = host_and_port(entry);
        let domain = domain.trim_start_matches('*').trim_start_matches('.');
        let is_named =
            domain.is_empty() || host == domain || host.strip_suffix(domain).is_some_and(|head| head.ends_with('.'));
        is_named && only.is_none_or(|only| only == port)
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
    fn an_excluded_host_with_a_port_is_excluded_on_that_port_only() {
        let direct = |url: &str, entry: &str| proxy(url, &[("ALL_PROXY", "http://p"), ("NO_PROXY", entry)]).is_none();
        for (url, entry) in [
            ("http://api.example:8080/v1", "api.example:8080"),
            ("http://me:secret@API.example:8080?x=a:b", "other.example, .example:8080"),
            ("https://api.example/v1", "*.example:443"),
            ("http://api.example", "api.example:80"),
            ("http://[fd00::1]:8080/v1", "[fd00::1]:8080"),
            ("http://[fd00::1]:8080/v1", "fd00::1"),
            ("http://api.example", "*:80"),
        ] {
            assert!(direct(url, entry), "{url} {entry}");
        }
        for (url, entry) in [
            ("http://api.example:8081/v1", "api.example:8080"),
            ("https://api.example/v1", "api.example:80"),
            ("http://[fd00::1]/v1", "[fd00::1]:8080"),
            ("http://[fd00::1]:8080/v1", "[fd00::2]"),
        ] {
            assert!(!direct(url, entry), "{url} {entry}");
        }
    }

    #[test]
    fn localhost_bypasses_the_proxy() {
        for url in ["http://localhost:8080/v1", "http://127.0.0.1:1", "http://[::1]:8080/v1"] {
            assert_eq!(proxy(url, &[("http_proxy", "http://p")]), None, "{url}");
        }
    }
}
