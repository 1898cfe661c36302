//! Models by name: `provider:model`.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::model::ChatModel;

use crate::anthropic::{self, Anthropic};
use crate::bedrock::{self, Bedrock};
use crate::catalogue::{Catalogue, provider_of};
use crate::config::{ConfigError, ModelConfig};
use crate::gemini::{self, Gemini};
use crate::http::proves_identity;
use crate::interactions::{self, Interactions};
use crate::ollama::{self, Ollama};
use crate::openai::{Dialect, OpenAiChat};
use crate::responses::{self, OpenAiResponses};
use crate::retry::SharedBackoff;
use crate::text_calls::TextToolCalls;

/// A built-in provider.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provider {
    /// Its name: the part of a model's name before the colon.
    pub name: &'static str,
    /// Environment variable that usually holds its key. The library never reads it; a program may.
    pub key_variable: Option<&'static str>,
    /// Whether it rejects calls without a key.
    pub key_required: bool,
    /// Its base URL, if fixed.
    pub base_url: Option<&'static str>,
}

/// Returns the built-in providers, each with its wire.
fn known() -> impl Iterator<Item = (Provider, Wire)> {
    let hosted = |name| Provider { name, key_variable: None, key_required: true, base_url: None };
    let native = [
        (Provider::keyed(anthropic::PROVIDER, anthropic::BASE_URL, "ANTHROPIC_API_KEY"), Wire::Anthropic),
        (Provider::keyed(gemini::PROVIDER, gemini::BASE_URL, "GEMINI_API_KEY"), Wire::Gemini),
        (Provider::keyed(interactions::PROVIDER, gemini::BASE_URL, "GEMINI_API_KEY"), Wire::Interactions),
        (Provider { key_variable: Some(VERTEX_TOKEN), ..hosted(gemini::VERTEX) }, Wire::GeminiOnVertex),
        (Provider { key_variable: Some(VERTEX_TOKEN), ..hosted("vertex-anthropic") }, Wire::AnthropicOnVertex),
        (Provider { key_variable: Some(BEDROCK_KEY), ..hosted(bedrock::PROVIDER) }, Wire::Bedrock),
        (Provider { key_variable: Some(BEDROCK_KEY), ..hosted("bedrock-anthropic") }, Wire::AnthropicOnBedrock),
        (Provider::local(ollama::PROVIDER, ollama::BASE_URL, "OLLAMA_API_KEY"), Wire::Ollama),
    ];
    let responses = responses::SERVICES.iter().map(|service| (service.clone(), Wire::Responses));
    let chat = Dialect::all().iter().map(|dialect| {
        let Dialect { name, base_url, key_variable, key_required, .. } = *dialect;
        (Provider { name, key_variable, key_required, base_url }, Wire::Chat(dialect))
    });
    native.into_iter().chain(responses).chain(chat)
}

/// Environment variable with a Bedrock API key.
const BEDROCK_KEY: &str = "AWS_BEARER_TOKEN_BEDROCK";

/// Environment variable with a Google access token.
const VERTEX_TOKEN: &str = "GOOGLE_OAUTH_ACCESS_TOKEN";

/// Protocol of a provider.
#[derive(Clone, Copy)]
enum Wire {
    Anthropic,
    AnthropicOnVertex,
    AnthropicOnBedrock,
    Gemini,
    GeminiOnVertex,
    Interactions,
    Bedrock,
    Ollama,
    Responses,
    Chat(&'static Dialect),
}

impl Wire {
    /// Creates a model of a provider.
    fn model(self, provider: &str, model: &str, config: ModelConfig) -> Result<Arc<dyn ChatModel>, ConfigError> {
        Ok(match self {
            Self::Anthropic => Arc::new(Anthropic::new(model, config)?),
            Self::AnthropicOnVertex => Arc::new(Anthropic::on_vertex(model, config)?),
            Self::AnthropicOnBedrock => Arc::new(Anthropic::on_bedrock(model, config)?),
            Self::Gemini => Arc::new(Gemini::new(model, config)?),
            Self::GeminiOnVertex => Arc::new(Gemini::on_vertex(model, config)?),
            Self::Interactions => Arc::new(Interactions::new(model, config)?),
            Self::Bedrock => Arc::new(Bedrock::new(model, config)?),
            Self::Ollama => Arc::new(Ollama::new(model, config)?),
            Self::Responses => Arc::new(OpenAiResponses::new(provider, model, config)?),
            Self::Chat(dialect) => Arc::new(OpenAiChat::new(dialect.clone(), model, config)?),
        })
    }
}

/// Returns the built-in providers.
pub fn providers() -> Vec<Provider> {
    known().map(|(provider, _)| provider).collect()
}

impl Provider {
    /// Creates a service that rejects calls without a key.
    pub(crate) const fn keyed(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Self {
        Self { name, key_variable: Some(key_variable), key_required: true, base_url: Some(base_url) }
    }

    /// Creates a server that users run themselves.
    pub(crate) const fn local(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Self {
        Self { key_required: false, ..Self::keyed(name, base_url, key_variable) }
    }

    /// Requires a key, unless the caller chose the address or set a header that authenticates.
    fn require_key(&self, config: &ModelConfig) -> Result<(), ConfigError> {
        let has_key = config.api_key.as_ref().is_some_and(|key| !key.is_empty());
        let has_header = config.headers.iter().any(|(name, _)| proves_identity(name));
        if !self.key_required || has_key || config.base_url.is_some() || has_header {
            return Ok(());
        }
        let variable = self.key_variable.map(str::to_owned);
        Err(ConfigError::MissingKey { provider: self.name.to_owned(), variable })
    }
}

/// Creates a model from its name and a configuration.
type Factory = Arc<dyn Fn(&str, ModelConfig) -> Result<Arc<dyn ChatModel>, ConfigError> + Send + Sync>;

/// Creates models from names.
///
/// All models of a registry share connections, and back off together after a rate limit.
///
/// ```
/// use deepagents_models::{ModelConfig, Registry};
/// let mut registry = Registry::new();
/// registry.configure("anthropic", ModelConfig { api_key: Some("a key".into()), ..ModelConfig::default() });
/// let model = registry.model("anthropic:claude-sonnet-4-5")?;
/// assert_eq!(model.name(), "anthropic:claude-sonnet-4-5");
/// // Only the first colon separates: models of a local server need no key.
/// assert_eq!(registry.model("ollama:llama3:8b")?.name(), "ollama:llama3:8b");
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Registry {
    factories: BTreeMap<String, Factory>,
    configs: BTreeMap<String, ModelConfig>,
    shared: ModelConfig,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// Creates a registry of the built-in providers, without keys.
    pub fn new() -> Self {
        let mut registry = Self {
            factories: BTreeMap::new(),
            configs: BTreeMap::new(),
            shared: ModelConfig { backoff: Some(SharedBackoff::new()), ..ModelConfig::default() },
        };
        for (provider, wire) in known() {
            registry.register(provider.name, move |model, config| {
                provider.require_key(&config)?;
                wire.model(provider.name, model, config)
            });
        }
        registry
    }

    /// Adds or replaces a provider. The factory receives the part of the name after the colon.
    pub fn register(
        &mut self,
        provider: impl Into<String>,
        factory: impl Fn(&str, ModelConfig) -> Result<Arc<dyn ChatModel>, ConfigError> + Send + Sync + 'static,
    ) -> &mut Self {
        self.factories.insert(provider.into(), Arc::new(factory));
        self
    }

    /// Sets the configuration of a provider, for all its models created from now on.
    pub fn configure(&mut self, provider: impl Into<String>, config: ModelConfig) -> &mut Self {
        self.configs.insert(provider.into(), config);
        self
    }

    /// Sets the catalogue of model facts, for all models created from now on.
    pub fn catalogue(&mut self, catalogue: Catalogue) -> &mut Self {
        self.shared.catalogue = Some(Arc::new(catalogue));
        self
    }

    /// Returns the names of the registered providers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.factories.keys().map(String::as_str)
    }

    /// Creates the model with this name.
    ///
    /// # Errors
    /// Returns an error if the name has no known provider or no model, or if a key or address is missing; see
    /// [`ConfigError`].
    pub fn model(&self, name: &str) -> Result<Arc<dyn ChatModel>, ConfigError> {
        self.model_with(name, ModelConfig::default())
    }

    /// Creates the model with this name, with a configuration that overrides the provider's.
    ///
    /// # Errors
    /// Same as [`model`](Self::model).
    pub fn model_with(&self, name: &str, config: ModelConfig) -> Result<Arc<dyn ChatModel>, ConfigError> {
        let (factory, model, config) = self.resolve(name, config)?;
        let in_text = config.text_tool_calls.unwrap_or_default();
        let model = factory(model, config)?;
        Ok(if in_text { Arc::new(TextToolCalls::new(model)) } else { model })
    }

    /// Asks the server that runs a model for its context window in tokens. Returns `None` if the server does not report
    /// it or cannot be reached.
    ///
    /// Use this for models whose [profile](ChatModel::profile) does not contain the window, such as those of a
    /// self-hosted server, and set the result as [`ModelConfig::context_window`].
    ///
    /// # Errors
    /// Same as [`model`](Self::model).
    pub async fn context_window(&self, name: &str, config: ModelConfig) -> Result<Option<u64>, ConfigError> {
        let (_, model, config) = self.resolve(name, config)?;
        let provider = name.split_once(':').map_or(name, |(provider, _)| provider);
        crate::window::ask(provider, model, &config).await
    }

    /// Returns the factory for a name, the name's model part, and the merged configuration.
    fn resolve<'a>(&self, name: &'a str, config: ModelConfig) -> Result<(&Factory, &'a str, ModelConfig), ConfigError> {
        let Some((provider, model)) = name.split_once(':') else {
            return Err(ConfigError::NoProvider { name: name.to_owned(), hint: hint(name) });
        };
        let Some(factory) = self.factories.get(provider) else {
            let known = self.names().map(str::to_owned).collect();
            return Err(ConfigError::UnknownProvider { provider: provider.to_owned(), known });
        };
        if model.trim().is_empty() {
            return Err(ConfigError::EmptyModel { provider: provider.to_owned() });
        }
        let config = match self.configs.get(provider) {
            Some(configured) => config.over(configured),
            None => config,
        };
        Ok((factory, model, config.over(&self.shared)))
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("providers", &self.factories.keys())
            .field("configs", &self.configs)
            .finish_non_exhaustive()
    }
}

/// Suggests a full name for a name without a provider.
fn hint(name: &str) -> String {
    match provider_of(name) {
        Some(provider) => format!("{provider}:{name}"),
        None => "anthropic:claude-sonnet-4-5".to_owned(),
    }
}
