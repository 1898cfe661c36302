//! The checked wires: which wire a path belongs to, and which client implements it.

use deepagents_core::message::Message;
use deepagents_core::model::{ModelError, ModelRequest};
use deepagents_models::{
    Anthropic, Bedrock, ConfigError, Decoded, Dialect, Gemini, HttpModel, Interactions, ModelConfig, Ollama,
    OpenAiChat, OpenAiResponses,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::recording::Answer;

/// The decoded answer, and the body of the request that follows it.
type Read = Result<(Decoded, Result<Vec<u8>, ModelError>), ModelError>;

/// The checked wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Anthropic,
    Chat,
    Responses,
    Gemini,
    Interactions,
    Ollama,
    Bedrock,
}

impl Wire {
    /// Returns the wire of a path.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        let ends = |ends: &[&str]| ends.iter().any(|end| path.ends_with(end));
        Some(match path {
            _ if ends(&["/v1/messages", ":rawPredict", ":streamRawPredict"]) => Self::Anthropic,
            _ if path.contains("anthropic.") && ends(&["/invoke", "/invoke-with-response-stream"]) => Self::Anthropic,
            _ if ends(&["/chat/completions"]) => Self::Chat,
            _ if ends(&["/responses"]) => Self::Responses,
            _ if ends(&[":generateContent", ":streamGenerateContent"]) => Self::Gemini,
            _ if ends(&["/interactions"]) => Self::Interactions,
            _ if ends(&["/api/chat"]) => Self::Ollama,
            _ if ends(&["/converse", "/converse-stream"]) => Self::Bedrock,
            _ => return None,
        })
    }

    /// Returns its name in a dump.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Chat => "openai-chat",
            Self::Responses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Interactions => "gemini-interactions",
            Self::Ollama => "ollama",
            Self::Bedrock => "bedrock",
        }
    }

    /// Returns the provider's names for the counts of prompt and answer tokens.
    pub(crate) fn usage_fields(self) -> (&'static str, &'static str) {
        match self {
            Self::Anthropic | Self::Responses => ("input_tokens", "output_tokens"),
            Self::Chat => ("prompt_tokens", "completion_tokens"),
            Self::Gemini => ("promptTokenCount", "candidatesTokenCount"),
            Self::Interactions => ("total_input_tokens", "total_output_tokens"),
            Self::Ollama => ("prompt_eval_count", "eval_count"),
            Self::Bedrock => ("inputTokens", "outputTokens"),
        }
    }

    /// Decodes an answer with the real client and returns it with the message that the next request sends back.
    pub(crate) fn round_trip<'a>(
        self,
        folders: impl Iterator<Item = &'a str>,
        answer: &Answer,
    ) -> Result<(Decoded, Value), String> {
        let read = self.read(folders, answer)?;
        let (decoded, body) = read.map_err(|error| format!("not decoded: {error}"))?;
        let body = body.map_err(|error| format!("not encoded: {error}"))?;
        let body = serde_json::from_slice(&body).map_err(|error| format!("not encoded as JSON: {error}"))?;
        Ok((decoded, self.sent_back(&body)))
    }

    /// Returns the error that the real client makes of an error response.
    pub(crate) fn refusal<'a>(
        self,
        folders: impl Iterator<Item = &'a str>,
        answer: &Answer,
    ) -> Result<ModelError, String> {
        match self.read(folders, answer)? {
            Ok(_) => Err(format!("a refusal (status {}) was read as an answer", answer.status)),
            Err(error) => Ok(error),
        }
    }

    /// Decodes an answer with the real client and encodes the next request.
    fn read<'a>(self, folders: impl Iterator<Item = &'a str>, answer: &Answer) -> Result<Read, String> {
        let base_url = Some("http://localhost/v1".to_owned());
        let config = ModelConfig { base_url, ..ModelConfig::default() };
        // A macro, because the trait that connects a model to its wire is private to its crate.
        macro_rules! through {
            ($model:expr) => {{
                let model: HttpModel<_> = $model.map_err(|error: ConfigError| error.to_string())?;
                let decoded = model.decode(answer.status, &headers(answer), &answer.body);
                decoded.map(|decoded| {
                    let body = model.request_body(&following(&decoded));
                    (decoded, body)
                })
            }};
        }
        Ok(match self {
            Self::Anthropic if answer.path.contains("/invoke") => through!(Anthropic::on_bedrock("recorded", config)),
            Self::Anthropic => through!(Anthropic::new("recorded", config)),
            Self::Chat => through!(OpenAiChat::new(dialect(folders, &answer.path), "recorded", config)),
            Self::Responses => through!(OpenAiResponses::new("openai", "recorded", config)),
            Self::Gemini => through!(Gemini::new("recorded", config)),
            Self::Interactions => through!(Interactions::new("recorded", config)),
            Self::Ollama => through!(Ollama::new("recorded", config)),
            Self::Bedrock => through!(Bedrock::new("recorded", config)),
        })
    }

    /// Returns the part of a request body that contains the model's answer, or null if nothing is sent back.
    fn sent_back(self, body: &Value) -> Value {
        let (field, role) = match self {
            Self::Responses | Self::Interactions => {
                // The first item is the question; an answer may have several items.
                let items = body.get("input").and_then(Value::as_array).into_iter().flatten().skip(1);
                let items: Vec<Value> = items.cloned().collect();
                return if items.is_empty() { Value::Null } else { Value::Array(items) };
            }
            Self::Gemini => ("contents", "model"),
            _ => ("messages", "assistant"),
        };
        let list = body.get(field).and_then(Value::as_array).into_iter().flatten();
        list.into_iter().find(|m| m.get("role").is_some_and(|r| r == role)).cloned().unwrap_or_default()
    }
}

/// Builds the request that follows an answer.
fn following(decoded: &Decoded) -> ModelRequest {
    let answer = Message::Assistant(decoded.output.message.clone());
    ModelRequest::new(vec![Message::user("go on"), answer])
}

fn headers(answer: &Answer) -> HeaderMap {
    let pairs = answer.headers.iter().filter_map(|(name, value)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
    });
    pairs.collect()
}

/// Returns the dialect named by the folders or the path, or else `custom`.
fn dialect<'a>(mut folders: impl Iterator<Item = &'a str>, path: &str) -> Dialect {
    let by_folder = folders.find_map(|folder| {
        let name: String = folder.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        Dialect::named(&name).or_else(|| Dialect::named(&format!("{name}-chat")))
    });
    let by_path = || match path {
        "/api/v1/chat/completions" => Dialect::named("openrouter"),
        "/openai/v1/chat/completions" => Dialect::named("groq"),
        _ => None,
    };
    by_folder.or_else(by_path).unwrap_or_else(Dialect::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dialect_is_taken_from_the_directory_then_from_the_path() {
        assert_eq!(dialect(["streams", "llama.cpp"].into_iter(), "/v1/chat/completions").name, "llamacpp");
        assert_eq!(dialect(["openai"].into_iter(), "/v1/chat/completions").name, "openai-chat");
        assert_eq!(dialect(["x"].into_iter(), "/api/v1/chat/completions").name, "openrouter");
        assert_eq!(dialect(["x"].into_iter(), "/chat/completions").name, "custom");
    }

    #[test]
    fn the_wire_is_taken_from_the_path() {
        assert_eq!(Wire::of_path("/v1/messages/count_tokens"), None);
        assert_eq!(Wire::of_path("/v1beta/models/g:streamGenerateContent?alt=sse"), Some(Wire::Gemini));
        assert_eq!(Wire::of_path("/model/amazon.nova-lite-v1%3A0/converse-stream"), Some(Wire::Bedrock));
        assert_eq!(Wire::of_path("/model/eu.anthropic.claude-v1%3A0/invoke"), Some(Wire::Anthropic));
        assert_eq!(Wire::of_path("/model/amazon.titan-v1/invoke"), None);
        assert_eq!(Wire::of_path("/v1beta/models/g:batchEmbedContents"), None);
    }
}
