//! Tavily, a search service for models.

use std::fmt;
use std::time::Duration;

use deepagents_models::ClientPool;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{SearchError, SearchProvider, SearchQuery, SearchResult};
use crate::text::shorten;

/// The URL of its API.
const URL: &str = "https://api.tavily.com/search";
/// Maximum number of bytes of an answer.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of characters of an error message to show.
const MAX_SHOWN_CHARS: usize = 200;

/// Searches with [Tavily](https://tavily.com); requires an API key.
#[derive(Clone)]
pub struct Tavily {
    key: String,
    url: String,
    proxy: Option<String>,
    pool: ClientPool,
}

impl Tavily {
    /// Creates the provider with this API key.
    pub fn new(key: impl Into<String>) -> Self {
        Self { key: key.into(), url: URL.to_owned(), proxy: None, pool: ClientPool::default() }
    }

    crate::shared::setters! {
        /// Sets the URL of another service with the same API.
        url(url: impl Into<String>) => url = url.into();

        /// Sets the URL of a proxy.
        proxy(proxy: Option<String>) => proxy = proxy;
    }
}

impl fmt::Debug for Tavily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tavily").field("url", &self.url).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    #[serde(default)]
    title: String,
    url: String,
    #[serde(default)]
    content: String,
}

impl SearchProvider for Tavily {
    fn search(&self, query: SearchQuery) -> BoxFuture<'_, Result<Vec<SearchResult>, SearchError>> {
        Box::pin(async move {
            let body = json!({"query": query.text, "max_results": query.count}).to_string();
            let headers = [("authorization".to_owned(), format!("Bearer {}", self.key))];
            let asked = self.pool.post(&self.url, &headers, body, self.proxy.clone(), MAX_ANSWER_BYTES);
            let answer = tokio::time::timeout(TIMEOUT, asked).await;
            let answer = answer.map_err(|_| SearchError::Transport(format!("no answer within {TIMEOUT:?}")))?;
            let answer = answer.map_err(|error| SearchError::Transport(error.to_string()))?;
            if answer.status != 200 {
                let told = serde_json::from_str::<Value>(&answer.body).ok();
                let told = told.as_ref().and_then(|told| told.pointer("/detail/error")?.as_str());
                // Before it is shortened, which could leave a part of the key.
                let reason = told.unwrap_or(&answer.body).replace(&self.key, "[key]");
                let reason = shorten(&reason, MAX_SHOWN_CHARS);
                return Err(SearchError::Refused { status: answer.status, reason });
            }
            let found: Answer =
                serde_json::from_str(&answer.body).map_err(|error| SearchError::Answer(error.to_string()))?;
            let found = found.results.into_iter();
            Ok(found.map(|Found { title, url, content }| SearchResult { title, url, snippet: content }).collect())
        })
    }
}
