//! The server of a model.

/// The server that a model's requests are sent to, whatever answers there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ModelServer {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl ModelServer {
    /// Creates the server at a host and port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }
}
