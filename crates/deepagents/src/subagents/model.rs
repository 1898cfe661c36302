//! A model in serializable form.

use std::time::Duration;

use deepagents_core::model::ModelSettings;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

/// The name and settings of a model. As JSON, a map of them or the name alone. Keys and addresses are not included:
/// they belong to the registry that creates models.
///
/// ```
/// use deepagents::subagents::ModelSpec;
/// let small: ModelSpec = serde_json::from_value(serde_json::json!("anthropic:claude-haiku-4-5"))?;
/// assert_eq!(small.model.as_deref(), Some("anthropic:claude-haiku-4-5"));
/// let colder: ModelSpec = serde_json::from_value(serde_json::json!({"temperature": 0.0}))?;
/// assert_eq!((colder.model, colder.temperature), (None, Some(0.0)));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelSpec {
    /// `provider:model`, or only the model if the provider is given separately. If it is unset or `inherit`, the
    /// settings apply to the parent agent's model.
    #[serde(default, alias = "model_name", skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider.
    #[serde(default, alias = "model_provider", skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The nucleus sampling threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Maximum number of tokens in an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Stop sequences.
    #[serde(default, alias = "stop_sequences", skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Time limit of a call in seconds, including retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Extra fields for the request body.
    #[serde(default, alias = "model_kwargs", skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

impl ModelSpec {
    /// Returns the full name, or `None` for the parent agent's model.
    pub(crate) fn full_name(&self) -> Option<String> {
        let name = self.model.as_deref().map(str::trim).filter(|name| !name.is_empty() && *name != "inherit")?;
        Some(match &self.provider {
            Some(provider) if !name.starts_with(&format!("{provider}:")) => format!("{provider}:{name}"),
            _ => name.to_owned(),
        })
    }

    /// Returns the settings, if it has any.
    pub(crate) fn settings(&self) -> Result<Option<ModelSettings>, String> {
        let mut settings = ModelSettings::default();
        settings.max_tokens = self.max_tokens;
        settings.temperature = self.temperature;
        settings.top_p = self.top_p;
        settings.stop.clone_from(&self.stop);
        settings.extra.clone_from(&self.extra);
        if let Some(seconds) = self.timeout {
            let time = Duration::try_from_secs_f64(seconds);
            settings.timeout =
                Some(time.map_err(|_| format!("`timeout` is not a valid number of seconds: {seconds}"))?);
        }
        Ok((settings != ModelSettings::default()).then_some(settings))
    }
}

impl From<&str> for ModelSpec {
    fn from(name: &str) -> Self {
        Self { model: Some(name.to_owned()), ..Self::default() }
    }
}

impl Serialize for ModelSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.model {
            Some(name) if *self == Self::from(name.as_str()) => serializer.serialize_str(name),
            _ => Self::serialize(self, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ModelSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(name) => Ok(Self::from(name.as_str())),
            Value::Object(map) => {
                let secret = ["api_key", "base_url", "headers"].into_iter().find(|key| map.contains_key(*key));
                if let Some(key) = secret {
                    return Err(D::Error::custom(format!("`{key}` belongs to the registry that models come from")));
                }
                Self::deserialize(Value::Object(map)).map_err(D::Error::custom)
            }
            _ => Err(D::Error::custom("a model is a name or a map of settings")),
        }
    }
}
