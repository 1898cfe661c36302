//! Where a model is.

/// The server of a model: what a request is sent to, whatever answers it there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ModelServer {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl ModelServer {
    /// The server at a port of a host.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }
}
