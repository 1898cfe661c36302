//! JSON-RPC.

use reqwest::Method;
use serde_json::{Value, json};

use super::card::Card;
use crate::http::{EventBody, Failure, Http, cut};

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// A request that is answered with one result.
pub(super) async fn call(http: &Http, card: &Card, method: &'static str, params: Value) -> Result<Value, Failure> {
    let answer = http.json(method, Method::POST, card.endpoint.clone(), Some(&request(method, &params))).await?;
    result(http, method, answer)
}

/// A request that is answered with a stream of results.
pub(super) async fn stream(
    http: &Http,
    card: &Card,
    method: &'static str,
    params: &Value,
) -> Result<EventBody, Failure> {
    http.stream(method, Method::POST, card.endpoint.clone(), Some(&request(method, params)), None).await
}

/// The result in one answer of a stream.
pub(super) fn read(http: &Http, method: &'static str, text: &str) -> Result<Value, Failure> {
    let answer = serde_json::from_str(text).map_err(|error| Failure::Final(http.unreadable(method, &error)))?;
    result(http, method, answer)
}

fn result(http: &Http, method: &'static str, mut answer: Value) -> Result<Value, Failure> {
    if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason is given");
        let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
        let reason = format!("{code} {}", cut(message));
        return Err(match code {
            // An error inside of the server may pass.
            -32603 => Failure::Away { reason, after: None },
            _ => Failure::Final(http.unreadable(method, &reason)),
        });
    }
    match answer.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(Failure::Final(http.unreadable(method, &"there is neither a result nor an error"))),
    }
}
