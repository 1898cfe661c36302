//! JSON-RPC, as used by two protocols over HTTP.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::deserialize::{from_ref, from_value};
use crate::error::ApiError;

/// A request, or a notification if it has no id.
#[derive(Deserialize)]
pub(crate) struct Request {
    pub(crate) id: Option<Value>,
    pub(crate) method: String,
    #[serde(default)]
    pub(crate) params: Value,
}

/// A JSON-RPC error object.
pub(crate) struct RpcError {
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl RpcError {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Creates an error for invalid parameters.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub(crate) fn no_method(name: &str) -> Self {
        Self::new(-32601, format!("`{name}` is not a method"))
    }
}

impl From<ApiError> for RpcError {
    fn from(error: ApiError) -> Self {
        Self::new(if error.status().is_server_error() { -32603 } else { -32602 }, error.to_string())
    }
}

/// Parses a request, or returns the error response if the body is not one.
pub(crate) fn read(body: &[u8]) -> Result<Request, Box<Response>> {
    let json = serde_json::from_slice(body).map_err(|error| (-32700, error.to_string()));
    json.and_then(|json| from_value(json).map_err(|error| (-32600, error))).map_err(|(code, message)| {
        let answer = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
        Box::new((StatusCode::BAD_REQUEST, Json(answer)).into_response())
    })
}

/// Parses the parameters of a request.
pub(crate) fn params<T: DeserializeOwned>(params: &Value) -> Result<T, RpcError> {
    from_ref(params).map_err(RpcError::invalid)
}

/// Builds the response to a request.
pub(crate) fn answer(id: &Value, result: Result<Value, RpcError>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(RpcError { code, message }) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
    }
}
