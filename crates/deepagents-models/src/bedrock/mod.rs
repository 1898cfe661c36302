//! Amazon Bedrock's Converse API.

mod blocks;
mod decode;
mod encode;
mod messages;

use std::sync::Arc;

use deepagents_core::message::Origin;
use deepagents_core::model::{ModelError, ModelRequest};
use serde_json::{Map, Value, json};

use crate::body::{RequestBody, Written};
use crate::client::HttpModel;
use crate::config::{ConfigError, ModelConfig};
use crate::decoded::Decoded;
use crate::http::{AnswerDecoder, Auth, Endpoint, TokenCount, Wire, fields_of};

/// Name of this wire in [`Origin::api`].
pub const API: &str = "bedrock-converse";
/// Name of the provider in the registry and in [`Origin::provider`].
pub const PROVIDER: &str = "bedrock";
/// An example address; its region is also that of the signature.
pub(crate) const EXAMPLE: &str = "https://bedrock-runtime.us-east-1.amazonaws.com";

/// A model of Bedrock's Converse API, plain or streamed.
///
/// Requests are signed with AWS keys ([`Credentials::aws`](crate::Credentials::aws)) for the region in the address; a
/// Bedrock API key is sent as it is. Cache marks become cache points. The blocks of a response are sent back unchanged,
/// including reasoning with its signature.
///
/// ```
/// use deepagents_models::{Bedrock, Credentials, ModelConfig};
/// let config = ModelConfig {
///     api_key: Some(Credentials::aws("AKIA…", "a secret", None)),
///     base_url: Some("https://bedrock-runtime.eu-central-1.amazonaws.com".into()),
///     ..ModelConfig::default()
/// };
/// let model = Bedrock::new("amazon.nova-lite-v1:0", config)?;
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
pub type Bedrock = HttpModel<Converse>;

impl Bedrock {
    /// Creates a model from its ID or that of an inference profile. Does not connect until the first call.
    ///
    /// # Errors
    /// Returns an error if there is no address, or if an address or a header cannot be used.
    pub fn new(model: impl Into<String>, config: ModelConfig) -> Result<Self, ConfigError> {
        let model = model.into();
        let method = if config.streaming.unwrap_or(true) { "converse-stream" } else { "converse" };
        let endpoint = endpoint(PROVIDER, &model, method, &config)?;
        let mut profile = config.profile(&model);
        profile.structured_output = Some(false);
        profile.cache_marks = model.contains("anthropic.") || model.contains("amazon.nova");
        Ok(Self {
            name: format!("{PROVIDER}:{model}"),
            endpoint: Arc::new(endpoint),
            wire: Arc::new(Converse {
                origin: Origin { api: API.to_owned(), provider: PROVIDER.to_owned(), model },
                extra: config.extra,
                cache_points: profile.cache_marks,
                written: Written::hashed(),
            }),
            profile,
        })
    }
}

/// Creates the endpoint for a method of a model, with signing.
pub(crate) fn endpoint(
    provider: &str,
    model: &str,
    method: &str,
    config: &ModelConfig,
) -> Result<Endpoint, ConfigError> {
    let base = config
        .base_url
        .as_deref()
        .ok_or_else(|| ConfigError::MissingBaseUrl { provider: provider.to_owned(), example: EXAMPLE.to_owned() })?;
    // Host names are `bedrock-runtime.REGION.amazonaws.com`, optionally preceded by an endpoint ID.
    let region = base.split('.').skip_while(|part| !part.ends_with("bedrock-runtime")).nth(1).unwrap_or("us-east-1");
    let auth = Auth::SigV4 { region: region.to_owned(), service: "bedrock" };
    // IDs contain colons, and those of profiles are ARNs with slashes.
    let id = model.replace('%', "%25").replace(':', "%3A").replace('/', "%2F");
    Endpoint::new(base, &format!("/model/{id}/{method}"), auth, &[], config)
}

/// Request fields that count towards tokens.
const COUNTED: [&str; 4] = ["messages", "system", "toolConfig", "additionalModelRequestFields"];

/// Returns a token count request for an input.
pub(crate) fn token_count(endpoint: &Endpoint, input: Value) -> TokenCount {
    let path = endpoint.url.path();
    let model = path.rsplit_once('/').map_or(path, |(model, _)| model);
    let body = Map::from_iter([("input".to_owned(), input)]);
    TokenCount { path: format!("{model}/count-tokens"), body, field: "inputTokens" }
}

/// Wire of the Converse API: what the encoder and decoder need to know of the model.
#[derive(Debug)]
pub struct Converse {
    origin: Origin,
    extra: Map<String, Value>,
    cache_points: bool,
    written: Written,
}

impl Wire for Converse {
    fn encode(&self, request: &ModelRequest, _stream: bool) -> Result<RequestBody, ModelError> {
        encode::body(self, request)
    }

    fn token_count(&self, endpoint: &Endpoint, request: &ModelRequest) -> Result<Option<TokenCount>, ModelError> {
        let body = fields_of(&encode::body(self, request)?, &COUNTED)?;
        Ok(Some(token_count(endpoint, json!({"converse": body}))))
    }

    fn decode(&self, body: &[u8]) -> Result<Decoded, ModelError> {
        decode::whole(&self.origin, body)
    }

    fn answer_decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::new(decode::ConverseDecoder::new(self.origin.clone()))
    }
}
