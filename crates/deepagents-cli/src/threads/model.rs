//! The model that a thread was run with last, for who goes on with it and names none.

use deepagents::core::journal::ThreadInfo;
use serde_json::{Map, Value, json};

use crate::args::AgentArgs;

/// The key under which a thread notes its model.
const MODEL: &str = "model";
/// The key under which a thread notes the address that its model was given with, or that there was none.
const ADDRESS: &str = "base_url";

/// Notes a model and the address that it was given with; `false` says that there was none, as null would note nothing.
pub(super) fn note(metadata: &mut Map<String, Value>, model: &str, base_url: Option<&str>) {
    metadata.insert(MODEL.to_owned(), json!(model));
    metadata.insert(ADDRESS.to_owned(), base_url.map_or(json!(false), |url| json!(without_secrets(url))));
}

/// The options with the model of a thread, and its address, where they name neither. Threads that do not say whether
/// there was an address are gone on with as ever: their model may be one of a server that nobody knows any more.
pub(crate) fn with_model_of(args: &AgentArgs, thread: &ThreadInfo) -> Option<AgentArgs> {
    if args.model.is_some() || args.base_url.is_some() {
        return None;
    }
    let model = thread.metadata.get(MODEL)?.as_str()?.to_owned();
    let base_url = thread.metadata.get(ADDRESS)?.as_str().map(str::to_owned);
    Some(AgentArgs { model: Some(model), base_url, ..args.clone() })
}

/// The model of a thread, if it was run at this address, or without one as it would be here.
pub(crate) fn of_thread(thread: &ThreadInfo, base_url: Option<&str>) -> Option<String> {
    let address = thread.metadata.get(ADDRESS)?.as_str();
    let is_here = address == base_url.map(without_secrets).as_deref();
    thread.metadata.get(MODEL)?.as_str().filter(|_| is_here).map(str::to_owned)
}

/// An address without what may be secret in it: the name and password before the host, and what follows a `?`.
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
    fn an_address_is_kept_without_its_secrets() {
        assert_eq!(without_secrets("http://ada:word@host:1/v1?key=a#b"), "http://host:1/v1");
        assert_eq!(without_secrets("https://host"), "https://host");
        assert_eq!(without_secrets("http://host/a@b"), "http://host/a@b");
    }
}
