//! The model of a thread's last run, for resuming the thread without naming a model.

use deepagents::core::journal::ThreadInfo;
use serde_json::{Map, Value, json};

use crate::args::AgentArgs;

/// Metadata key for the model.
const MODEL: &str = "model";
/// Metadata key for the address given with the model, or for the fact that there was none.
const ADDRESS: &str = "base_url";

/// Notes a model and its address. `false` stands for no address, because `null` would not be stored.
pub(super) fn note(metadata: &mut Map<String, Value>, model: &str, base_url: Option<&str>) {
    metadata.insert(MODEL.to_owned(), json!(model));
    metadata.insert(ADDRESS.to_owned(), base_url.map_or(json!(false), |url| json!(without_secrets(url))));
}

/// Returns the options with the thread's model and address; `None` if the options name either, or the thread does not
/// say whether there was an address: the model may then be one of an unknown server.
pub(crate) fn with_model_of(args: &AgentArgs, thread: &ThreadInfo) -> Option<AgentArgs> {
    if args.model.is_some() || args.base_url.is_some() {
        return None;
    }
    let model = thread.metadata.get(MODEL)?.as_str()?.to_owned();
    let base_url = thread.metadata.get(ADDRESS)?.as_str().map(str::to_owned);
    Some(AgentArgs { model: Some(model), base_url, ..args.clone() })
}

/// Returns the thread's model if it was run at this address, or if neither has an address.
pub(crate) fn of_thread(thread: &ThreadInfo, base_url: Option<&str>) -> Option<String> {
    let address = thread.metadata.get(ADDRESS)?.as_str();
    let is_here = address == base_url.map(without_secrets).as_deref();
    thread.metadata.get(MODEL)?.as_str().filter(|_| is_here).map(str::to_owned)
}

/// Removes the secret parts of an address: user name and password before the host, and everything from a `?` or `#`.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, format!("/{path}")),
        None => (rest, String::new()),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_stored_without_its_secrets() {
        assert_eq!(without_secrets("http://ada:word@host:1/v1?key=a#b"), "http://host:1/v1");
        assert_eq!(without_secrets("https://host"), "https://host");
        assert_eq!(without_secrets("http://host/a@b"), "http://host/a@b");
    }
}
