//! Who made a model, as its name says it.

/// How the names begin of the models that a provider makes and serves itself.
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

/// The provider whose maker has made a model; none where the name does not say it, or its maker is no provider.
pub(crate) fn provider_of(model: &str) -> Option<&'static str> {
    let model = model.to_lowercase();
    let is_of = |(_, families): &&(&str, &[&str])| families.iter().any(|family| model.starts_with(family));
    FAMILIES.iter().find(is_of).map(|(provider, _)| *provider)
}
