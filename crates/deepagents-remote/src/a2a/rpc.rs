//! JSON-RPC.

use reqwest::Method;
use serde_json::{Value, json};

use super::card::Card;
use super::version::Operation;
use crate::http::{EventBody, Failure, Http, cut};

fn request(card: &Card, method: &str, mut params: Value) -> Value {
    if let (Some(tenant), Some(params)) = (&card.tenant, params.as_object_mut()) {
        params.insert("tenant".to_owned(), tenant.as_str().into());
    }
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Sends a request with a single result.
pub(super) async fn call(card: &Card, operation: Operation, params: Value) -> Result<Value, Failure> {
    let method = card.version.method(operation);
    let body = request(card, method, params);
    let answer = card.http.json(method, Method::POST, card.endpoint.clone(), Some(&body)).await?;
    result(&card.http, method, answer)
}

/// Sends a request with a stream of results.
pub(super) async fn stream(card: &Card, operation: Operation, params: Value) -> Result<EventBody, Failure> {
    let method = card.version.method(operation);
    let body = request(card, method, params);
    card.http.stream(method, Method::POST, card.endpoint.clone(), Some(&body), None).await
}

/// Parses a result of a stream.
pub(super) fn read(card: &Card, operation: Operation, text: &str) -> Result<Value, Failure> {
    let (http, method) = (&card.http, card.version.method(operation));
    let answer = serde_json::from_str(text).map_err(|error| Failure::Final(http.unreadable(method, &error)))?;
    result(http, method, answer)
}

fn result(http: &Http, method: &'static str, mut answer: Value) -> Result<Value, Failure> {
    if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason is given");
        let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
        let reason = format!("{code} {}", cut(message));
        return Err(match code {
            // An internal error of the server may be temporary.
            -32603 => Failure::Away { reason, after: None },
            _ => Failure::Final(http.unreadable(method, &reason)),
        });
    }
    match answer.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(Failure::Final(http.unreadable(method, &"there is neither a result nor an error"))),
    }
}
