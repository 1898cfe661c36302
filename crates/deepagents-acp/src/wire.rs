//! Re-exports the protocol crate. No other module names it, because its versions change often.

pub(crate) use agent_client_protocol::schema::ProtocolVersion;
pub(crate) use agent_client_protocol::v1::schema::*;
pub(crate) use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, JsonRpcRequest, JsonRpcResponse, Lines, RequestCancellationHandle, UntypedMessage,
    on_receive_notification, on_receive_request,
};

/// The connection to an editor.
pub(crate) type Connection = agent_client_protocol::v1::ConnectionTo<Client>;
/// Sends the response to a request of the editor.
pub(crate) type Responder<T> = agent_client_protocol::v1::Responder<T>;

/// Returns an error about an invalid request.
pub(crate) fn invalid(why: impl Into<String>) -> Error {
    Error::invalid_params().data(serde_json::Value::String(why.into()))
}

/// Returns an error about an internal failure.
pub(crate) fn failed(why: &impl ToString) -> Error {
    Error::internal_error().data(serde_json::Value::String(why.to_string()))
}

/// Returns an error about an unknown session.
pub(crate) fn no_session(id: &SessionId) -> Error {
    let why = format!("there is no session `{id}` here; make, load or resume one first");
    Error::new(-32002, "Resource not found").data(serde_json::Value::String(why))
}
