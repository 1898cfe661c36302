//! The makers of models, by the names of the models.

/// The name prefixes of the models that a provider makes and serves itself.
const FAMILIES: [(&str, &[&str]); 10] = [
    ("anthropic", &["claude"]),
    ("openai", &["gpt", "chatgpt", "o1", "o3", "o4", "codex", "computer-use"]),
    ("google", &["gemini"]),
    ("deepseek", &["deepseek"]),
    ("xai", &["grok"]),
    (
        "mistral",
        &[
            "mistral",
            "open-mi",
            "ministral",
            "magistral",
            "codestral",
            "devstral",
            "mixtral",
            "pixtral",
            "voxtral",
            "labs-",
        ],
    ),
    ("moonshot", &["kimi", "moonshot"]),
    ("zai", &["glm", "zai"]),
    ("qwen", &["qwen", "qwq", "qvq"]),
    ("perplexity", &["sonar", "pplx"]),
];

/// Returns the provider that makes a model, or `None` if the name does not show it or the maker is not a provider.
pub(crate) fn provider_of(model: &str) -> Option<&'static str> {
    let model = model.to_lowercase();
    let is_of = |(_, families): &&(&str, &[&str])| families.iter().any(|family| model.starts_with(family));
    FAMILIES.iter().find(is_of).map(|(provider, _)| *provider)
}
