//! Asks a provider for the number of tokens in a request.

use deepagents_core::model::ModelError;
use reqwest::Url;
use serde_json::{Map, Value};

use super::Endpoint;
use crate::body::RequestBody;
use crate::json;

/// A request for a token count.
pub(crate) struct TokenCount {
    /// Path of the endpoint, with its query if any.
    pub(crate) path: String,
    /// Body to send.
    pub(crate) body: Map<String, Value>,
    /// Field of the response that holds the count.
    pub(crate) field: &'static str,
}

/// Returns only the body fields that an endpoint accepts, as it rejects others.
pub(crate) fn fields_of(body: &RequestBody, known: &[&str]) -> Result<Map<String, Value>, ModelError> {
    let Value::Object(mut fields) = json::parse("the request", &body.to_vec())? else { return Ok(Map::new()) };
    fields.retain(|name, _| known.contains(&name.as_str()));
    Ok(fields)
}

/// Asks once, without retries. Returns `None` if the server has no such endpoint, as servers that imitate a provider
/// may not.
pub(crate) async fn count_tokens(endpoint: &Endpoint, question: TokenCount) -> Result<Option<u64>, ModelError> {
    let mut url: Url = endpoint.url.clone();
    url.set_query(None);
    url.set_path(&question.path);
    match endpoint.ask(&url, Some(&Value::Object(question.body))).await {
        Ok(answer) => {
            let answer = json::parse("the number of tokens", &answer)?;
            let count = answer.get(question.field).and_then(Value::as_u64);
            let missing =
                || ModelError::protocol(format!("the answer does not contain the number `{}`", question.field));
            count.ok_or_else(missing).map(Some)
        }
        Err(error) if matches!(error.info().status, Some(404 | 405 | 501)) => Ok(None),
        Err(error) => Err(error),
    }
}
