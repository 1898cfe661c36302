//! What may be shown of a server's configuration.

use std::fmt;

use super::{HttpConfig, OAuthConfig, ServerConfig, StdioConfig, TransportConfig};
use crate::text::{MIN_SECRET_BYTES, redact};

impl ServerConfig {
    /// Returns the values to redact: those of its headers, environment and inserted variables, and the secrets in its
    /// URL.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let (in_address, beside_path) = match &self.transport {
            TransportConfig::Stdio(_) => (Vec::new(), Vec::new()),
            TransportConfig::Http(http) => (in_address(&http.url), beside_path(&http.url)),
        };
        let values = match &self.transport {
            TransportConfig::Stdio(stdio) => stdio.env.values().collect::<Vec<_>>(),
            TransportConfig::Http(http) => {
                http.headers.values().chain(http.oauth.iter().flat_map(OAuthConfig::secrets)).collect()
            }
        };
        let short: Vec<String> = match &self.transport {
            TransportConfig::Http(http) => {
                http.headers.values().filter(|value| is_short_secret(value)).cloned().collect()
            }
            TransportConfig::Stdio(_) => Vec::new(),
        };
        let values = values.into_iter().chain(&self.hidden).chain(&in_address);
        longest_first(beside_path.into_iter().chain(short).chain(parts(values)).collect())
    }
}

/// Whether the value of a header may be a secret, although it is short: at least it is not an ordinary word.
fn is_short_secret(value: &str) -> bool {
    (4..MIN_SECRET_BYTES).contains(&value.len()) && !value.chars().all(|c| c.is_ascii_lowercase())
}

/// Returns the parts of secrets to search for.
fn parts<'a>(values: impl Iterator<Item = &'a String>) -> Vec<String> {
    // In `Bearer TOKEN`, the token alone is a secret too. Shorter parts are skipped: they would match everywhere.
    let parts = values.flat_map(|value| std::iter::once(value.as_str()).chain(value.split_whitespace()));
    longest_first(parts.filter(|part| part.len() >= MIN_SECRET_BYTES).map(str::to_owned).collect())
}

/// Sorts the longest first, so that a secret which contains another is replaced as a whole.
fn longest_first(mut secrets: Vec<String>) -> Vec<String> {
    secrets.sort_by_key(|part| std::cmp::Reverse(part.len()));
    secrets
}

/// Returns the query and user info of a URL, with their delimiters. As parts of a URL they are found even if short.
fn beside_path(address: &str) -> Vec<String> {
    let mut found = Vec::new();
    let parsed = reqwest::Url::parse(address);
    for address in [Some(address), parsed.as_ref().ok().map(reqwest::Url::as_str)].into_iter().flatten() {
        let whole = address.split('#').next().unwrap_or(address);
        let (place, query) = whole.split_once('?').unwrap_or((whole, ""));
        let host = place.split_once("://").and_then(|(_, rest)| rest.split('/').next());
        let who = host.and_then(|host| host.rsplit_once('@')).map(|(who, _)| format!("{who}@"));
        found.extend(who);
        found.extend((!query.is_empty()).then(|| format!("?{query}")));
    }
    found
}

/// Returns what to redact from a URL for display.
fn address_secrets(address: &str) -> Vec<String> {
    longest_first(beside_path(address).into_iter().chain(parts(in_address(address).iter())).collect())
}

/// Returns the possible secrets in a URL: the user info and the values of the query, raw and decoded.
fn in_address(url: &str) -> Vec<String> {
    let Ok(url) = reqwest::Url::parse(url) else { return Vec::new() };
    let written =
        url.query().unwrap_or_default().split('&').filter_map(|pair| Some(pair.split_once('=')?.1.to_owned()));
    let meant = url.query_pairs().map(|(_, value)| value.into_owned());
    let who = [Some(url.username()), url.password()].into_iter().flatten().map(str::to_owned);
    written.chain(meant).chain(who).collect()
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each of these may contain inserted variables.
        let secrets = self.secrets();
        let mut transport = self.transport.clone();
        match &mut transport {
            TransportConfig::Stdio(stdio) => {
                let texts = std::iter::once(&mut stdio.command).chain(&mut stdio.args);
                texts.for_each(|text| *text = redact(text, &secrets));
            }
            TransportConfig::Http(http) => http.url = redact(&http.url, &secrets),
        }
        f.debug_struct("ServerConfig")
            .field("transport", &transport)
            .field("tools", &self.tools)
            .field("trusted", &self.trusted)
            .field("sampling", &self.sampling)
            .field("start_timeout", &self.start_timeout)
            .field("call_timeout", &self.call_timeout)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StdioConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.env.keys().collect();
        f.debug_struct("StdioConfig")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &names)
            .field("cwd", &self.cwd)
            .finish()
    }
}

impl fmt::Debug for HttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.headers.keys().collect();
        f.debug_struct("HttpConfig")
            .field("url", &redact(&self.url, &address_secrets(&self.url)))
            .field("transport", &self.transport)
            .field("headers", &names)
            .field("oauth", &self.oauth)
            .finish()
    }
}
