//! Models by name, with keys, URLs and settings.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use std::sync::Arc;
use std::time::Duration;

use deepagents::models::{ModelConfig, Registry, RetryPolicy};
use deepagents::{ChatModel, DeepAgent, ModelSettings, model_fn};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut registry = Registry::new();
    let key = std::env::var("ANTHROPIC_API_KEY").unwrap_or_else(|_| "a key".to_owned());
    registry.configure("anthropic", ModelConfig { api_key: Some(key.into()), ..ModelConfig::default() });
    // Any server with the Chat Completions API; a local one needs no key.
    registry.configure(
        "custom",
        ModelConfig {
            base_url: Some("http://localhost:8080/v1".into()),
            retry: Some(RetryPolicy { max_attempts: 3, ..RetryPolicy::default() }),
            ..ModelConfig::default()
        },
    );
    // A provider of your own: a closure from a request to an answer, or a type that implements `ChatModel`.
    registry.register("house", |model, _config| {
        Ok(Arc::new(model_fn(format!("house:{model}"), |_request| async { Ok("Good day.") })))
    });
    for name in ["anthropic:claude-sonnet-4-5", "custom:my-model", "ollama:llama3:8b", "house:clerk"] {
        let model = registry.model(name)?;
        println!("{}: window {:?}", model.name(), model.profile().context_window);
    }
    if let Err(error) = registry.model("openai:gpt-5.2") {
        println!("{error}");
    }

    let mut settings = ModelSettings::default();
    settings.max_tokens = Some(4_000);
    settings.timeout = Some(Duration::from_secs(300));
    let agent = DeepAgent::builder().model(registry.model("custom:my-model")?).settings(settings).build()?;
    println!("{}", agent.model().name());
    Ok(())
}
// ANCHOR_END: example
