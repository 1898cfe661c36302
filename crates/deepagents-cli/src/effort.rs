//! Setting the reasoning effort, by provider.

use anyhow::{Result, bail};
use serde_json::{Map, Value, json};

use crate::args::Effort;

/// Returns the request fields that set the effort for a provider.
///
/// # Errors
/// Returns an error if no such field is known for the provider.
pub(crate) fn fields(provider: &str, effort: Effort) -> Result<Map<String, Value>> {
    let (word, budget) = match effort {
        Effort::Low => ("low", 2_048),
        Effort::Medium => ("medium", 8_192),
        Effort::High => ("high", 24_576),
    };
    let fields = match provider {
        "openai" | "azure" | "xai-responses" | "openrouter-responses" => {
            json!({"reasoning": {"effort": word, "summary": "auto"}})
        }
        "openrouter" => json!({"reasoning": {"effort": word}}),
        "openai-chat" | "azure-chat" | "custom" | "xai" | "groq" | "cerebras" | "fireworks" | "together"
        | "huggingface" | "vllm" | "llamacpp" => json!({"reasoning_effort": word}),
        "anthropic" | "vertex-anthropic" | "bedrock-anthropic" => {
            json!({"thinking": {"type": "enabled", "budget_tokens": budget}})
        }
        "google" | "vertex" => {
            json!({"generationConfig": {"thinkingConfig": {"thinkingBudget": budget, "includeThoughts": true}}})
        }
        other => bail!("effort is not supported for {other}; leave it out"),
    };
    Ok(fields.as_object().cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_is_translated_for_each_provider_and_refused_for_others() {
        let told = |provider| fields(provider, Effort::High).map(Value::from).map_err(|error| error.to_string());
        assert_eq!(told("openai").unwrap()["reasoning"]["effort"], "high");
        assert_eq!(told("custom").unwrap()["reasoning_effort"], "high");
        assert_eq!(told("anthropic").unwrap()["thinking"]["budget_tokens"], 24_576);
        assert!(told("mistral").is_err_and(|error| error.contains("mistral")));
    }
}
