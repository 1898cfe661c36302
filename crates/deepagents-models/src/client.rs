//! The model type shared by all HTTP wires.

use std::sync::Arc;

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest, ModelServer};
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;

use crate::decoded::Decoded;
use crate::http::{Endpoint, Wire, call, count_tokens, decode_recorded};

/// A model accessed over HTTP, such as [`Anthropic`](crate::Anthropic) or [`OpenAiResponses`](crate::OpenAiResponses).
#[derive(Debug)]
pub struct HttpModel<W> {
    pub(crate) name: String,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) wire: Arc<W>,
    pub(crate) profile: ModelProfile,
}

impl<W> Clone for HttpModel<W> {
    fn clone(&self) -> Self {
        let Self { name, endpoint, wire, profile } = self;
        Self { name: name.clone(), endpoint: endpoint.clone(), wire: wire.clone(), profile: profile.clone() }
    }
}

#[allow(private_bounds, reason = "the wires are those of this crate")]
impl<W: Wire> HttpModel<W> {
    /// Returns the body that a request is sent with.
    ///
    /// # Errors
    /// Returns [`ModelError::Invalid`] for requests the provider cannot accept: too many cache marks, unsupported
    /// media.
    pub fn request_body(&self, request: &ModelRequest) -> Result<Vec<u8>, ModelError> {
        Ok(self.wire.encode(request, self.endpoint.streaming)?.to_vec())
    }

    /// Decodes a recorded response, plain or streamed, exactly as a live one.
    ///
    /// # Errors
    /// Returns the error of a live call, apart from retries.
    pub fn decode(
        &self,
        status: u16,
        headers: &reqwest::header::HeaderMap,
        body: &[u8],
    ) -> Result<Decoded, ModelError> {
        decode_recorded(&*self.wire, status, headers, body)
    }
}

impl<W: Wire> ChatModel for HttpModel<W> {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> ModelProfile {
        self.profile.clone()
    }

    fn server(&self) -> Option<ModelServer> {
        let url = &self.endpoint.url;
        Some(ModelServer::new(url.host_str()?, url.port_or_known_default()?))
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        call(Arc::clone(&self.endpoint), Arc::clone(&self.wire) as Arc<dyn Wire>, request)
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'static, Result<Option<u64>, ModelError>> {
        let (endpoint, wire) = (Arc::clone(&self.endpoint), Arc::clone(&self.wire));
        Box::pin(async move {
            match wire.token_count(&endpoint, &request)? {
                Some(question) => count_tokens(&endpoint, question).await,
                None => Ok(None),
            }
        })
    }
}
