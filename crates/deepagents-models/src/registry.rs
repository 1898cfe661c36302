//! Models by name: `provider:model`.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::model::ChatModel;

use crate::anthropic::{self, Anthropic};
use crate::bedrock::{self, Bedrock};
use crate::catalogue::{Catalogue, provider_of};
use crate::config::{ConfigError, ModelConfig};
use crate::gemini::{self, Gemini};
use crate::http::{ClientPool, proves_identity};
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

/// Returns the built-in providers, each with a factory of its models.
fn known() -> impl Iterator<Item = (Provider, Factory)> {
    let hosted = |name, variable| Provider { base_url: None, ..Provider::keyed(name, "", variable) };
    let native = [
        (
            Provider::keyed(anthropic::PROVIDER, anthropic::BASE_URL, "ANTHROPIC_API_KEY"),
            factory(|model, config| Anthropic::new(model, config)),
        ),
        (
            Provider::keyed(gemini::PROVIDER, gemini::BASE_URL, "GEMINI_API_KEY"),
            factory(|model, config| Gemini::new(model, config)),
        ),
        (
            Provider::keyed(interactions::PROVIDER, gemini::BASE_URL, "GEMINI_API_KEY"),
            factory(|model, config| Interactions::new(model, config)),
        ),
        (hosted(gemini::VERTEX, VERTEX_TOKEN), factory(|model, config| Gemini::on_vertex(model, config))),
        (hosted("vertex-anthropic", VERTEX_TOKEN), factory(|model, config| Anthropic::on_vertex(model, config))),
        (hosted(bedrock::PROVIDER, BEDROCK_KEY), factory(|model, config| Bedrock::new(model, config))),
        (hosted("bedrock-anthropic", BEDROCK_KEY), factory(|model, config| Anthropic::on_bedrock(model, config))),
        (
            Provider::local(ollama::PROVIDER, ollama::BASE_URL, "OLLAMA_API_KEY"),
            factory(|model, config| Ollama::new(model, config)),
        ),
    ];
    let responses = responses::SERVICES.iter().map(|service| {
        (service.clone(), factory(move |model, config| OpenAiResponses::new(service.name, model, config)))
    });
    let chat = Dialect::all().iter().map(|dialect| {
        let Dialect { name, base_url, key_variable, key_required, .. } = *dialect;
        let provider = Provider { name, key_variable, key_required, base_url };
        (provider, factory(move |model, config| OpenAiChat::new(dialect.clone(), model, config)))
    });
    native.into_iter().chain(responses).chain(chat)
}

fn factory<M: ChatModel>(new: impl Fn(&str, ModelConfig) -> Result<M, ConfigError> + Send + Sync + 'static) -> Factory {
    Arc::new(move |model: &str, config| Ok(Arc::new(new(model, config)?) as Arc<dyn ChatModel>))
}

/// Environment variable with a Bedrock API key.
const BEDROCK_KEY: &str = "AWS_BEARER_TOKEN_BEDROCK";

/// Environment variable with a Google access token.
const VERTEX_TOKEN: &str = "GOOGLE_OAUTH_ACCESS_TOKEN";

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
        for (provider, factory) in known() {
            registry.register(provider.name, move |model, config| {
                provider.require_key(&config)?;
                factory(model, config)
            });
        }
        registry
    }

    /// Adds or replaces a provider. The factory receives the part of the name after the colon.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deepagents_core::forward_model;
    /// use deepagents_core::model::{ChatModel, ModelProfile, model_fn};
    /// use deepagents_models::Registry;
    ///
    /// /// A model with what the catalogue contains about it, such as its price.
    /// struct Listed<M> {
    ///     model: M,
    ///     profile: ModelProfile,
    /// }
    ///
    /// impl<M: ChatModel> ChatModel for Listed<M> {
    ///     forward_model!([.model]; name, stream);
    ///
    ///     fn profile(&self) -> ModelProfile {
    ///         self.profile.clone()
    ///     }
    /// }
    ///
    /// let mut registry = Registry::new();
    /// registry.register("house", |model, config| {
    ///     let client = model_fn(format!("house:{model}"), |_request| async { Ok("Good day.") });
    ///     Ok(Arc::new(Listed { model: client, profile: config.profile(model) }))
    /// });
    /// let model = registry.model("house:claude-sonnet-4-5")?;
    /// assert_eq!(model.name(), "house:claude-sonnet-4-5");
    /// assert!(model.profile().price.is_some());
    /// # Ok::<(), deepagents_models::ConfigError>(())
    /// ```
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

    /// Sets the pool of connections, for all models created from now on.
    ///
    /// ```
    /// use deepagents_models::{ClientPool, Registry};
    /// let mut registry = Registry::new();
    /// registry.pool(ClientPool::with_max_requests(4_000));
    /// ```
    pub fn pool(&mut self, pool: ClientPool) -> &mut Self {
        self.shared.pool = pool;
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
