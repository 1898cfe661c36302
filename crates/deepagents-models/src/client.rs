//! The model type shared by all HTTP wires.

use std::sync::Arc;

use deepagents_core::message::Origin;
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest, ModelServer};
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use serde_json::{Map, Value};

use crate::body::Written;
use crate::decoded::Decoded;
use crate::http::{Endpoint, Wire, call, count_tokens, decode_recorded};

/// A model accessed over HTTP, such as [`Anthropic`](crate::Anthropic) or [`OpenAiResponses`](crate::OpenAiResponses).
#[derive(Debug)]
pub struct HttpModel<W> {
    name: String,
    endpoint: Arc<Endpoint>,
    target: Arc<Target<W>>,
    profile: ModelProfile,
}

/// The model that requests are encoded for.
#[derive(Debug)]
pub(crate) struct Target<W> {
    pub(crate) origin: Origin,
    /// Configured fields of every body.
    pub(crate) extra: Map<String, Value>,
    pub(crate) written: Written,
    /// What only this wire needs to know of the model.
    pub(crate) wire: W,
}

impl<W> AsRef<Origin> for Target<W> {
    fn as_ref(&self) -> &Origin {
        &self.origin
    }
}

impl<W> HttpModel<W> {
    /// Creates a model, named after its provider and itself.
    pub(crate) fn at(
        endpoint: Endpoint,
        [api, provider, model]: [&str; 3],
        (profile, extra): (ModelProfile, Map<String, Value>),
        wire: W,
    ) -> Self {
        let origin = Origin { api: api.to_owned(), provider: provider.to_owned(), model: model.to_owned() };
        let written = Written::new(endpoint.signs_bodies());
        Self {
            name: format!("{provider}:{model}"),
            endpoint: Arc::new(endpoint.of_model(model)),
            target: Arc::new(Target { origin, extra, written, wire }),
            profile,
        }
    }

    pub(crate) fn named(self, name: String) -> Self {
        Self { name, ..self }
    }
}

impl<W> Clone for HttpModel<W> {
    fn clone(&self) -> Self {
        let Self { name, endpoint, target, profile } = self;
        Self { name: name.clone(), endpoint: endpoint.clone(), target: target.clone(), profile: profile.clone() }
    }
}

#[allow(private_bounds, reason = "the wires are those of this crate")]
impl<W> HttpModel<W>
where
    Target<W>: Wire,
{
    /// Returns the body that a request is sent with.
    ///
    /// # Errors
    /// Returns [`ModelError::Invalid`] for requests the provider cannot accept: too many cache marks, unsupported
    /// media.
    pub fn request_body(&self, request: &ModelRequest) -> Result<Vec<u8>, ModelError> {
        Ok(self.target.encode(request, self.endpoint.streaming)?.to_vec())
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
        decode_recorded(&*self.target, status, headers, body)
    }
}

impl<W> ChatModel for HttpModel<W>
where
    Target<W>: Wire,
{
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
        call(Arc::clone(&self.endpoint), Arc::clone(&self.target) as Arc<dyn Wire>, request)
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'static, Result<Option<u64>, ModelError>> {
        let (endpoint, target) = (Arc::clone(&self.endpoint), Arc::clone(&self.target));
        Box::pin(async move {
            match target.token_count(&endpoint, &request)? {
                Some(question) => count_tokens(&endpoint, question).await,
                None => Ok(None),
            }
        })
    }
}
