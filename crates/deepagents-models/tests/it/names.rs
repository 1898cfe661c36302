//! Models by name.

use std::sync::Arc;

use deepagents_core::model::{ChatModel, ModelRequest};
use deepagents_models::{Anthropic, ConfigError, ModelConfig, Registry, providers};
use serde_json::json;

use crate::server::{Reply, Server, events};

fn key() -> ModelConfig {
    ModelConfig { api_key: Some("sk-very-secret\n".into()), ..ModelConfig::default() }
}

fn error(registry: &Registry, name: &str) -> String {
    registry.model(name).map(|model| model.name().to_owned()).unwrap_err().to_string()
}

#[test]
fn every_known_provider_can_create_models() {
    let registry = Registry::new();
    for provider in providers() {
        let name = format!("{}:some:model", provider.name);
        let base_url = provider.base_url.is_none().then(|| "http://localhost:1/v1".to_owned());
        let model = registry.model_with(&name, ModelConfig { base_url, ..key() }).unwrap();
        assert_eq!(model.name(), name);
        assert_eq!(registry.model(&name).is_err(), provider.key_required || provider.base_url.is_none(), "{name}");
    }
}

#[tokio::test]
async fn openai_and_azure_use_the_responses_api_unless_the_name_says_chat() {
    for (provider, path) in [
        ("openai", "/responses"),
        ("azure", "/responses"),
        ("openai-chat", "/chat/completions"),
        ("azure-chat", "/chat/completions"),
    ] {
        let server = Server::start([Reply::json(400, &json!({"error": {"message": "enough"}}))]).await;
        let model = Registry::new().model_with(&format!("{provider}:gpt-5.2"), server.config()).unwrap();
        events(&*model, ModelRequest::new("Hello.")).await;
        let head = server.seen()[0].head.clone();
        assert!(head.split(['?', ' ']).nth(1).unwrap().ends_with(path), "{provider}: {head}");
    }
}

#[test]
fn model_name_errors_say_how_to_fix_them() {
    let registry = Registry::new();
    assert!(error(&registry, "claude-sonnet-4-5").contains("`anthropic:claude-sonnet-4-5`"));
    assert!(error(&registry, "nobody:x").contains("the known ones are anthropic, azure, azure-chat, bedrock"));
    assert!(error(&registry, "openai:").contains("does not name a model"));
    let missing = error(&registry, "groq:x");
    assert!(missing.contains("ModelConfig::api_key") && missing.contains("GROQ_API_KEY"), "{missing}");
    // Headers that identify the application are not credentials.
    let titled = ModelConfig { headers: vec![("X-Title".into(), "us".into())], ..ModelConfig::default() };
    assert!(matches!(registry.model_with("openrouter:x", titled).err(), Some(ConfigError::MissingKey { .. })));
    let proven = ModelConfig { headers: vec![("Authorization".into(), "Bearer t".into())], ..ModelConfig::default() };
    assert!(registry.model_with("openrouter:x", proven).is_ok());
    assert!(error(&registry, "custom:x").contains("ModelConfig::base_url"));
    let bad = Anthropic::new("m", ModelConfig { base_url: Some("ftp://x".into()), ..key() });
    assert!(matches!(bad, Err(ConfigError::BadUrl { .. })));
    let config = ModelConfig { headers: vec![("x-a".into(), "line\nbreak".into())], ..key() };
    assert_eq!(Anthropic::new("m", config).unwrap_err(), ConfigError::BadHeader { name: "x-a".into() });
}

#[test]
fn factories_can_be_added_and_configurations_are_layered() {
    let mut registry = Registry::new();
    registry.configure("house", ModelConfig { base_url: Some("http://a/v1".into()), streaming: Some(false), ..key() });
    registry.register("house", |model, config| {
        assert_eq!((config.base_url.as_deref(), config.streaming), (Some("http://b"), Some(false)));
        Ok(Arc::new(Anthropic::new(format!("house-{model}"), config)?))
    });
    let config = ModelConfig { base_url: Some("http://b".into()), ..ModelConfig::default() };
    assert_eq!(registry.model_with("house:x:y", config).unwrap().name(), "anthropic:house-x:y");
}

#[test]
fn keys_are_never_printed() {
    let mut registry = Registry::new();
    let config = ModelConfig { headers: vec![("x-token".into(), "sk-very-secret".into())], ..key() };
    registry.configure("anthropic", config.clone());
    let model = Anthropic::new("m", config.clone()).unwrap();
    let printed = format!("{registry:?} {config:?} {model:?}");
    assert!(!printed.contains("very-secret"), "{printed}");
}
