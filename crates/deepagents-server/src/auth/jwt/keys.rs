//! The keys of an issuer, fetched on first use and refreshed when they change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::Uri;
use deepagents::models::ClientPool;
use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use futures_util::future::Shared;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::algorithm::{Jwk, VerifyingKey};

/// How long keys are used before they are fetched again.
const KEYS_TTL: Duration = Duration::from_secs(3600);

/// How long keys are used if their issuer cannot be reached.
const MAX_KEYS_AGE: Duration = Duration::from_secs(24 * 3600);

/// Time limit for a fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of the issuer's documents, in bytes.
const MAX_DOCUMENT_BYTES: usize = 1 << 20;

type Keys = Arc<[VerifyingKey]>;
type Fetch = Shared<BoxFuture<'static, Result<Keys, Arc<str>>>>;

/// Where to find the keys of an issuer.
#[derive(Clone, Debug)]
pub(super) enum KeyLocation {
    /// Named in the issuer's discovery document (OpenID Connect Discovery).
    Discovered { issuer: String },
    /// At a fixed URL.
    At(String),
}

/// A cache of the issuer's keys. Concurrent requests share one fetch.
#[derive(Debug)]
pub(super) struct KeySource {
    location: KeyLocation,
    /// Minimum time between fetches, so that tokens with made-up key ids do not cause a request each.
    pub(super) pause: Duration,
    clients: ClientPool,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    keys: Option<(Instant, Keys)>,
    fetching: Option<Fetch>,
    /// When the last fetch ended, and its error if it failed.
    tried: Option<(Instant, Option<Arc<str>>)>,
}

/// How to obtain the keys.
enum Step {
    Use(Keys),
    Fetch(Fetch),
    Fail(Arc<str>),
}

impl KeySource {
    pub(super) fn new(location: KeyLocation) -> Self {
        let (clients, cache) = (ClientPool::default(), Mutex::default());
        Self { location, pause: Duration::from_secs(10), clients, cache }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the keys. Fetches them if the wanted key is not among them or they are stale.
    pub(super) async fn get(&self, wanted: Option<&str>) -> Result<Keys, String> {
        let fetch = match self.step(wanted) {
            Step::Use(keys) => return Ok(keys),
            Step::Fail(why) => return Err(why.to_string()),
            Step::Fetch(fetch) => fetch,
        };
        let fetched = fetch.clone().await;
        let mut cache = self.cache();
        // The first waiter to get here records the result.
        if cache.fetching.as_ref().is_some_and(|known| known.ptr_eq(&fetch)) {
            cache.fetching = None;
            cache.tried = Some((Instant::now(), fetched.as_ref().err().cloned()));
            if let Ok(keys) = &fetched {
                cache.keys = Some((Instant::now(), keys.clone()));
            }
        }
        let usable = cache.keys.as_ref().filter(|(at, _)| at.elapsed() < MAX_KEYS_AGE).map(|(_, keys)| keys.clone());
        fetched.or_else(|why| usable.ok_or_else(|| why.to_string()))
    }

    fn step(&self, wanted: Option<&str>) -> Step {
        let mut cache = self.cache();
        let has_it = |keys: &Keys| wanted.is_none_or(|id| keys.iter().any(|key| key.id.as_deref() == Some(id)));
        let rests = cache.tried.as_ref().is_some_and(|(at, _)| at.elapsed() < self.pause);
        match &cache.keys {
            Some((at, keys)) if at.elapsed() < KEYS_TTL && has_it(keys) => return Step::Use(keys.clone()),
            Some((at, keys)) if at.elapsed() < MAX_KEYS_AGE && rests => return Step::Use(keys.clone()),
            _ => {}
        }
        if let (true, Some((_, Some(why)))) = (rests, &cache.tried) {
            return Step::Fail(why.clone());
        }
        let fetch = cache.fetching.get_or_insert_with(|| fetch(self.clients.clone(), self.location.clone()));
        Step::Fetch(fetch.clone())
    }
}

fn fetch(clients: ClientPool, location: KeyLocation) -> Fetch {
    let keys = async move {
        let address = match location {
            KeyLocation::At(address) => address,
            KeyLocation::Discovered { issuer } => discover(&clients, &issuer).await?,
        };
        let set: KeySet = get(&clients, &address).await?;
        // Keys of unknown types are for other consumers.
        let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        let keys: Keys = keys.filter_map(VerifyingKey::read).collect();
        if keys.is_empty() {
            return Err(format!("{address} has no keys that can verify signatures"));
        }
        Ok(keys)
    };
    let limited = async {
        match tokio::time::timeout(FETCH_TIMEOUT, keys).await {
            Ok(keys) => keys.map_err(Arc::from),
            Err(_) => Err("the issuer of tokens does not answer".into()),
        }
    };
    limited.boxed().shared()
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

/// Returns the URL of an issuer's keys.
async fn discover(clients: &ClientPool, issuer: &str) -> Result<String, String> {
    let address = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let found: Discovery = get(clients, &address).await?;
    if found.issuer != issuer {
        return Err(format!("{address} belongs to the issuer {}, not to {issuer}", found.issuer.escape_debug()));
    }
    check_address(&found.jwks_uri)?;
    Ok(found.jwks_uri)
}

async fn get<T: DeserializeOwned>(clients: &ClientPool, address: &str) -> Result<T, String> {
    let failed = |why: &dyn std::fmt::Display| format!("{address} cannot be read: {why}");
    let answer = clients.fetch(address, None, MAX_DOCUMENT_BYTES).await.map_err(|error| failed(&error))?;
    if answer.status != 200 {
        return Err(failed(&format!("the status is {}", answer.status)));
    }
    serde_json::from_str(&answer.body).map_err(|error| failed(&error))
}

/// Rejects URLs over which keys could be modified in transit.
pub(super) fn check_address(address: &str) -> Result<(), String> {
    let parsed = address.parse::<Uri>().ok().and_then(|uri| {
        let is_local = matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
        match uri.scheme_str() {
            Some("https") => Some(()),
            Some("http") => is_local.then_some(()),
            _ => None,
        }
    });
    parsed.ok_or_else(|| format!("`{}` is not an https:// address", address.escape_debug()))
}
