//! A model as data.

use std::time::Duration;

use deepagents_core::model::ModelSettings;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value};

/// A model: its name, or a map of its name and settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ModelDefinition {
    /// `provider:model`, or `inherit` for that of the agent above.
    Name(String),
    /// A name and settings.
    Map(ModelMap),
}

/// A model's name and settings. Keys and addresses are no part of it: they belong to the registry that models come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelMap {
    /// `provider:model`, or the model alone where the provider is given beside it; without one the settings are for the
    /// model of the agent above.
    #[serde(default, alias = "model_name", skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider.
    #[serde(default, alias = "model_provider", skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Randomness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Tokens the answer may hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Texts that end the answer.
    #[serde(default, alias = "stop_sequences", skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Seconds that a call may take, retries included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Fields for the request's body.
    #[serde(default, alias = "model_kwargs", skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// What stands for the model of the agent above.
const INHERIT: &str = "inherit";

impl ModelDefinition {
    /// The full name; none stands for the model of the agent above.
    pub(crate) fn full_name(&self) -> Option<String> {
        let (name, provider) = match self {
            Self::Name(name) => (Some(name), None),
            Self::Map(map) => (map.model.as_ref(), map.provider.as_deref()),
        };
        let name = name.map(|name| name.trim()).filter(|name| !name.is_empty() && *name != INHERIT)?;
        Some(match provider {
            Some(provider) if !name.starts_with(&format!("{provider}:")) => format!("{provider}:{name}"),
            _ => name.to_owned(),
        })
    }

    /// Whether it puts fields of its own into requests.
    pub(crate) fn has_extra(&self) -> bool {
        matches!(self, Self::Map(map) if !map.extra.is_empty())
    }

    /// The settings, if it gives any.
    pub(crate) fn settings(&self) -> Result<Option<ModelSettings>, String> {
        let Self::Map(map) = self else { return Ok(None) };
        let mut settings = ModelSettings::default();
        settings.max_tokens = map.max_tokens;
        settings.temperature = map.temperature;
        settings.top_p = map.top_p;
        settings.stop.clone_from(&map.stop);
        settings.extra.clone_from(&map.extra);
        if let Some(seconds) = map.timeout {
            let time = Duration::try_from_secs_f64(seconds);
            settings.timeout = Some(time.map_err(|_| format!("`timeout` is no number of seconds: {seconds}"))?);
        }
        Ok((settings != ModelSettings::default()).then_some(settings))
    }
}

impl From<&str> for ModelDefinition {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl<'de> Deserialize<'de> for ModelDefinition {
    // By hand, since an untagged enum says no more than that nothing matched.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(name) => Ok(Self::Name(name)),
            Value::Object(map) => {
                let secret = ["api_key", "base_url", "headers"].into_iter().find(|key| map.contains_key(*key));
                if let Some(key) = secret {
                    return Err(D::Error::custom(format!("`{key}` belongs to the registry that models come from")));
                }
                serde_json::from_value(Value::Object(map)).map(Self::Map).map_err(D::Error::custom)
            }
            _ => Err(D::Error::custom("a model is a name or a map of settings")),
        }
    }
}
