//! Models by name: `provider:model`.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::model::ChatModel;

use crate::anthropic::{self, Anthropic};
use crate::bedrock::{self, Bedrock};
use crate::catalogue::Catalogue;
use crate::config::{ConfigError, ModelConfig};
use crate::gemini::{self, Gemini};
use crate::http::proves_identity;
use crate::interactions::{self, Interactions};
use crate::ollama::{self, Ollama};
use crate::openai::{Dialect, OpenAiChat};
use crate::responses::{self, OpenAiResponses};
use crate::retry::SharedBackoff;
use crate::text_calls::TextToolCalls;

/// A provider that is known from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provider {
    /// Its name, the part of a model's name before the colon.
    pub name: &'static str,
    /// The environment variable that usually holds its key. The library never reads it; a program may.
    pub key_variable: Option<&'static str>,
    /// Whether it refuses calls without a key.
    pub key_required: bool,
    /// Its address, where it has a fixed one.
    pub base_url: Option<&'static str>,
}

/// The providers that are known from the start, each with the wire that speaks to it.
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

/// The variable that holds an API key of Bedrock.
const BEDROCK_KEY: &str = "AWS_BEARER_TOKEN_BEDROCK";

/// The variable that holds a token of Google's.
const VERTEX_TOKEN: &str = "GOOGLE_OAUTH_ACCESS_TOKEN";

/// How a provider is spoken to.
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
    /// A model of a provider.
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

/// The providers that are known from the start.
pub fn providers() -> Vec<Provider> {
    known().map(|(provider, _)| provider).collect()
}

impl Provider {
    /// A service that refuses calls without a key.
    pub(crate) const fn keyed(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Self {
        Self { name, key_variable: Some(key_variable), key_required: true, base_url: Some(base_url) }
    }

    /// A server that people run themselves.
    pub(crate) const fn local(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Self {
        Self { key_required: false, ..Self::keyed(name, base_url, key_variable) }
    }

    /// A call without a key is let through only to an address that the caller chose, or with a header that says who calls.
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

/// What makes a model of a name and a configuration.
type Factory = Arc<dyn Fn(&str, ModelConfig) -> Result<Arc<dyn ChatModel>, ConfigError> + Send + Sync>;

/// Makes models from names.
///
/// All models of a registry share connections, and wait together after a rate limit.
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
    /// A registry of the known providers, without keys.
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

    /// Adds a provider, or replaces one. The factory is given the part of the name after the colon.
    pub fn register(
        &mut self,
        provider: impl Into<String>,
        factory: impl Fn(&str, ModelConfig) -> Result<Arc<dyn ChatModel>, ConfigError> + Send + Sync + 'static,
    ) -> &mut Self {
        self.factories.insert(provider.into(), Arc::new(factory));
        self
    }

    /// Sets how a provider is reached, for all its models made from now on.
    pub fn configure(&mut self, provider: impl Into<String>, config: ModelConfig) -> &mut Self {
        self.configs.insert(provider.into(), config);
        self
    }

    /// Sets what is known of models, for all made from now on.
    pub fn catalogue(&mut self, catalogue: Catalogue) -> &mut Self {
        self.shared.catalogue = Some(Arc::new(catalogue));
        self
    }

    /// The names of the providers there are.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.factories.keys().map(String::as_str)
    }

    /// The model of this name.
    ///
    /// # Errors
    /// A name without a known provider or without a model; a missing key or address; see [`ConfigError`].
    pub fn model(&self, name: &str) -> Result<Arc<dyn ChatModel>, ConfigError> {
        self.model_with(name, ModelConfig::default())
    }

    /// The model of this name, with a configuration that wins over the provider's.
    ///
    /// # Errors
    /// As [`model`](Self::model).
    pub fn model_with(&self, name: &str, config: ModelConfig) -> Result<Arc<dyn ChatModel>, ConfigError> {
        let (factory, model, config) = self.resolve(name, config)?;
        let in_text = config.text_tool_calls.unwrap_or_default();
        let model = factory(model, config)?;
        Ok(if in_text { Arc::new(TextToolCalls::new(model)) } else { model })
    }

    /// How many tokens a model reads, asked of the server that runs it; none where the server does not say or cannot be
    /// reached. For models whose [profile](ChatModel::profile) does not say it, such as those of one's own server: what
    /// comes of it belongs into [`ModelConfig::context_window`].
    ///
    /// # Errors
    /// As [`model`](Self::model).
    pub async fn context_window(&self, name: &str, config: ModelConfig) -> Result<Option<u64>, ConfigError> {
        let (_, model, config) = self.resolve(name, config)?;
        let provider = name.split_once(':').map_or(name, |(provider, _)| provider);
        crate::window::ask(provider, model, &config).await
    }

    /// What makes the model of a name, the name's last part, and the whole configuration.
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

/// A full name for a bare one.
fn hint(name: &str) -> String {
    let provider = match name {
        _ if name.starts_with("claude") => "anthropic",
        _ if name.starts_with("gpt") || name.starts_with("o1") || name.starts_with("o3") => "openai",
        _ if name.starts_with("gemini") => "google",
        _ if name.starts_with("deepseek") => "deepseek",
        _ if name.starts_with("grok") => "xai",
        _ if name.contains("stral") => "mistral",
        _ => return "anthropic:claude-sonnet-4-5".to_owned(),
    };
    format!("{provider}:{name}")
}
