//! A web page as a model sees it, and a custom search service.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::DeepAgent;
use deepagents::middleware::web::{FetchOptions, SearchError, SearchProvider, SearchQuery, SearchResult, Web};
use deepagents::models::scripted::{ScriptedModel, Turn};
use futures_util::future::BoxFuture;
use serde_json::json;

/// Stands for a real service, such as `Tavily`.
struct Encyclopedia;

impl SearchProvider for Encyclopedia {
    fn search(&self, query: SearchQuery) -> BoxFuture<'_, Result<Vec<SearchResult>, SearchError>> {
        let found = SearchResult {
            title: query.text,
            url: "https://example.org/ferris".to_owned(),
            snippet: "An unofficial mascot.".to_owned(),
        };
        Box::pin(async { Ok(vec![found]) })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new([
        Turn::call("web_search", json!({"query": "Ferris"})),
        Turn::call("fetch_url", json!({"url": "http://169.254.169.254/latest/meta-data/"})),
        Turn::text("It is a mascot, and the address was private."),
    ]);
    let web = Web::new(FetchOptions::default())?.search(Encyclopedia);
    let agent = DeepAgent::builder().model(model).middleware(web).build()?;
    let outcome = agent.invoke("Who is Ferris?").await?;
    for message in outcome.messages().iter() {
        println!("{}", message.text());
    }
    Ok(())
}
// ANCHOR_END: example
