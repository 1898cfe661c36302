//! Agent cards.

use reqwest::{Method, Url};
use serde_json::Value;

use super::ONCE;
use super::version::Version;
use crate::error::RemoteError;
use crate::http::Http;

/// The parts of an agent's card that are used.
#[derive(Clone, Debug)]
pub(super) struct Card {
    /// The client for the agent, with the version header if the version requires it.
    pub(super) http: Http,
    /// The address of its JSON-RPC endpoint.
    pub(super) endpoint: Url,
    pub(super) version: Version,
    /// The tenant to include in every request.
    pub(super) tenant: Option<String>,
    /// Whether the agent supports streams of events.
    pub(super) streaming: bool,
    /// Whether the agent accepts a message id at most once, however often it is sent.
    pub(super) takes_once: bool,
}

impl Card {
    /// Fetches the card of an agent. If there is none, the address itself is used as the endpoint.
    pub(super) async fn fetch(http: &Http, assistant: Option<&str>) -> Result<Self, RemoteError> {
        let mut place = http.url(".well-known/agent-card.json")?;
        if let Some(assistant) = assistant {
            place.query_pairs_mut().append_pair("assistant_id", assistant);
        }
        match http.send_with_retries("its card", Method::GET, place, None).await {
            Ok(card) => Self::read(http, &card),
            Err(RemoteError::Refused { status: 404 | 405, .. }) if assistant.is_none() => {
                let (http, endpoint) = (http.clone(), http.base());
                Ok(Self { http, endpoint, version: Version::V0_3, tenant: None, streaming: false, takes_once: false })
            }
            Err(error) => Err(error),
        }
    }

    fn read(http: &Http, card: &Value) -> Result<Self, RemoteError> {
        let text =
            |value: &Value, keys: &[&str]| keys.iter().find_map(|key| value.get(key)?.as_str()).map(str::to_owned);
        let ours = |one: &Value| {
            let transport = text(one, &["transport", "protocolBinding", "preferredTransport"]);
            let is_ours = transport.is_none_or(|name| name.eq_ignore_ascii_case("JSONRPC"));
            let version = Version::named(text(one, &["protocolVersion"]).as_deref()).filter(|_| is_ours)?;
            Some((version, text(one, &["url"])?, text(one, &["tenant"])))
        };
        let more = ["additionalInterfaces", "supportedInterfaces"];
        let more = more.iter().filter_map(|key| card.get(key)?.as_array()).flatten();
        let own = Some(card).filter(|card| card.get("url").is_some());
        // Prefers the newest version; among interfaces of one version, the card's order decides.
        let known = own.into_iter().chain(more).filter_map(ours);
        let newest = known.reduce(|best, one| if one.0 == Version::V1_0 && best.0 != one.0 { one } else { best });
        let Some((version, url, tenant)) = newest else {
            return Err(http.unreadable("its card", &"it does not offer JSON-RPC of version 0.3 or 1.0"));
        };
        let endpoint =
            Url::parse(&url).or_else(|_| http.url(&url)).map_err(|error| http.unreadable("its card", &error))?;
        if endpoint.origin() != http.base().origin() {
            // The headers must only be sent to the configured host, not to one that it names.
            let other = endpoint.origin().ascii_serialization();
            return Err(RemoteError::Config(format!(
                "the card of {} sends requests to {other}; if that is meant, give that address",
                http.host
            )));
        }
        let capabilities = card.get("capabilities");
        let extensions = capabilities.and_then(|all| all.get("extensions")?.as_array()).into_iter().flatten();
        let http = match version {
            Version::V0_3 => http.clone(),
            Version::V1_0 => http.with_header("a2a-version", "1.0"),
        };
        let tenant = tenant.filter(|tenant| !tenant.is_empty());
        Ok(Self {
            http,
            endpoint,
            version,
            tenant,
            streaming: capabilities.and_then(|all| all.get("streaming")?.as_bool()).unwrap_or(false),
            takes_once: extensions.into_iter().any(|one| one.get("uri").is_some_and(|uri| uri == ONCE)),
        })
    }
}
