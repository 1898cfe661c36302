//! `web_search`.

use std::sync::Arc;

use deepagents_core::tool::{Tool, ToolContext, ToolError, ToolOutput};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{SearchError, wrap_untrusted};
use crate::shared::Shared;
use crate::text::one_line;

/// Default number of results.
const DEFAULT_RESULTS: usize = 5;
/// Maximum number of results.
const MAX_RESULTS: usize = 20;

/// A search query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchQuery {
    /// The words to search for.
    pub text: String,
    /// Maximum number of results.
    pub count: usize,
}

/// A search result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// Its title.
    pub title: String,
    /// Its URL.
    pub url: String,
    /// An excerpt about the query.
    pub snippet: String,
}

/// A service that searches the web.
///
/// ```
/// use deepagents::middleware::web::{SearchError, SearchProvider, SearchQuery, SearchResult};
/// use futures_util::future::BoxFuture;
///
/// /// Knows one page.
/// struct OnePage;
///
/// impl SearchProvider for OnePage {
///     fn search(&self, query: SearchQuery) -> BoxFuture<'_, Result<Vec<SearchResult>, SearchError>> {
///         let found = SearchResult { title: query.text, url: "https://example.org".into(), snippet: "All.".into() };
///         Box::pin(async { Ok(vec![found]) })
///     }
/// }
/// ```
pub trait SearchProvider: Send + Sync + 'static {
    /// Searches. Dropping the future cancels the search.
    fn search(&self, query: SearchQuery) -> BoxFuture<'_, Result<Vec<SearchResult>, SearchError>>;
}

/// The tool `web_search`, which searches with a provider; see the [module](super).
#[derive(Clone, Debug)]
pub struct WebSearch(Shared<dyn SearchProvider>);

impl WebSearch {
    /// Creates the tool with this provider.
    pub fn new(provider: impl SearchProvider) -> Self {
        Self(Shared(Arc::new(provider)))
    }
}

/// The arguments of `web_search`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SearchArgs {
    /// What to look for.
    query: String,
    /// Number of results, 5 by default.
    count: Option<usize>,
}

impl Tool for WebSearch {
    type Args = SearchArgs;

    fn name(&self) -> &str {
        "web_search"
    }

    fn description(&self) -> &str {
        "Searches the web. Gives titles, addresses and excerpts."
    }

    fn idempotent(&self, _args: &SearchArgs) -> bool {
        true
    }

    async fn call(&self, args: SearchArgs, _cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let count = args.count.unwrap_or(DEFAULT_RESULTS).clamp(1, MAX_RESULTS);
        let mut found = self.0.search(SearchQuery { text: args.query, count }).await?;
        found.truncate(count);
        if found.is_empty() {
            return Ok(ToolOutput::text("Nothing was found."));
        }
        let lines = found.iter().enumerate().map(|(at, result)| {
            let SearchResult { title, url, snippet } = result;
            format!("{}. {}\n   {}\n   {}", at + 1, one_line(title), one_line(url), one_line(snippet))
        });
        Ok(ToolOutput::text(wrap_untrusted("web_results", "", &lines.collect::<Vec<_>>().join("\n"))))
    }
}
