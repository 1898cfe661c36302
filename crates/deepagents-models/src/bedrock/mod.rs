//! Amazon Bedrock's Converse API.

mod blocks;
mod decode;
mod encode;
mod messages;

use deepagents_core::model::{ModelError, ModelRequest};
use serde_json::{Map, Value, json};

use crate::body::{self, EncodedStart, Head, RequestBody, first_marked};
use crate::client::{HttpModel, Target};
use crate::config::{ConfigError, ModelConfig};
use crate::http::{AnswerDecoder, Auth, Endpoint, TokenCount, Wire, fields_of};

/// Name of this wire in [`Origin::api`](deepagents_core::message::Origin::api).
pub const API: &str = "bedrock-converse";
/// Name of the provider in the registry and in [`Origin::provider`](deepagents_core::message::Origin::provider).
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
        profile.documents = messages::DOCUMENTS.iter().map(|(mime, _)| (*mime).to_owned()).collect();
        let cache_points = profile.cache_marks;
        Ok(Self::at(endpoint, [API, PROVIDER, &model], (profile, config.extra), Converse { cache_points }))
    }
}

/// Creates the endpoint for a method of a model, with signing.
pub(crate) fn endpoint(
    provider: &str,
    model: &str,
    method: &str,
    config: &ModelConfig,
) -> Result<Endpoint, ConfigError> {
    let base = config.base_url_or(None, provider, EXAMPLE)?;
    // Host names are `bedrock-runtime.REGION.amazonaws.com` or `bedrock-runtime-fips.…`, optionally preceded by an endpoint
    // ID.
    let is_service = |part: &str| part.ends_with("bedrock-runtime") || part.ends_with("bedrock-runtime-fips");
    let region = base.split('.').skip_while(|part| !is_service(part)).nth(1).unwrap_or("us-east-1");
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

/// Wire of the Converse API, for a model with or without cache points.
#[derive(Debug)]
pub struct Converse {
    cache_points: bool,
}

impl Wire for Target<Converse> {
    /// Encodes the body of a request. The URL requests a stream.
    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
        if request.output_schema.is_some() {
            return Err(ModelError::invalid(
                "Converse cannot hold answers to a schema; offer a tool with that schema instead",
            ));
        }
        let head = Head::new(self, request, stream);
        let first_marked = if self.wire.cache_points { first_marked(request) } else { usize::MAX };
        head.body(head.tools_and_system()?, ("messages", &[]), first_marked, |known| {
            let mut turns = messages::messages(self, request, known.messages(), first_marked)?;
            // Two consecutive assistant messages form one, so the second cannot be appended to a cached first.
            let is_answer = |turn: &body::Turn<Value>| turn.item.get("role").is_some_and(|role| role == "assistant");
            if known.messages() > 0 && turns.first().is_some_and(is_answer) {
                *known = EncodedStart::default();
                turns = messages::messages(self, request, 0, first_marked)?;
            }
            Ok(body::exact(turns, &["content", "toolUse", "input"]))
        })
    }

    fn token_count(&self, endpoint: &Endpoint, request: &ModelRequest) -> Result<Option<TokenCount>, ModelError> {
        let body = fields_of(&self.encode(request, false)?, &COUNTED)?;
        Ok(Some(token_count(endpoint, json!({"converse": body}))))
    }

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::<decode::ConverseDecoder>::default()
    }
}
