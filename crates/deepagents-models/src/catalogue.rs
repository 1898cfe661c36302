//! What is known of the models that people use: sizes and abilities.
//!
//! Rows are matched by the beginning of the model's name, the longest match wins; a gateway's prefix
//! (`anthropic/claude-…`) and a hosting prefix are passed over. Sizes are tokens, prices US dollars per million tokens.
//! What is unknown stays unknown: the profile of a model that is not listed is the empty one.

use deepagents_core::model::{ModelProfile, Price};

/// A row of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// How the model's name begins.
    pub prefix: &'static str,
    /// Tokens a request may hold.
    pub context_window: u64,
    /// Tokens an answer may hold.
    pub max_output: u64,
    /// Whether pictures can be sent.
    pub images: bool,
    /// Whether PDF documents can be sent.
    pub pdf: bool,
    /// Whether sound can be sent.
    pub audio: bool,
    /// Whether the provider holds answers to a schema.
    pub structured_output: bool,
    /// List price of input and output, where known.
    pub price: Option<(f64, f64)>,
}

const fn row(prefix: &'static str, context_window: u64, max_output: u64) -> Entry {
    Entry {
        prefix,
        context_window,
        max_output,
        images: false,
        pdf: false,
        audio: false,
        structured_output: true,
        price: None,
    }
}

impl Entry {
    const fn images(mut self) -> Self {
        self.images = true;
        self
    }

    const fn pdf(mut self) -> Self {
        self.images = true;
        self.pdf = true;
        self
    }

    const fn audio(mut self) -> Self {
        self.audio = true;
        self
    }

    const fn unstructured(mut self) -> Self {
        self.structured_output = false;
        self
    }

    const fn price(mut self, input: f64, output: f64) -> Self {
        self.price = Some((input, output));
        self
    }
}

/// The rows.
pub const ENTRIES: &[Entry] = &[
    // Anthropic
    row("claude-3-haiku", 200_000, 4096).images().unstructured().price(0.25, 1.25),
    row("claude-3-opus", 200_000, 4096).images().unstructured().price(15.0, 75.0),
    row("claude-3-5-haiku", 200_000, 8192).pdf().unstructured().price(0.8, 4.0),
    row("claude-3-5-sonnet", 200_000, 8192).pdf().unstructured().price(3.0, 15.0),
    row("claude-3-7-sonnet", 200_000, 64_000).pdf().unstructured().price(3.0, 15.0),
    row("claude-opus-4", 200_000, 32_000).pdf().unstructured().price(15.0, 75.0),
    row("claude-opus-4-1", 200_000, 32_000).pdf().price(15.0, 75.0),
    row("claude-opus-4-5", 200_000, 64_000).pdf().price(5.0, 25.0),
    row("claude-opus-4-6", 200_000, 128_000).pdf().price(5.0, 25.0),
    row("claude-sonnet-4", 200_000, 64_000).pdf().unstructured().price(3.0, 15.0),
    row("claude-sonnet-4-5", 200_000, 64_000).pdf().price(3.0, 15.0),
    row("claude-sonnet-4-6", 200_000, 64_000).pdf().price(3.0, 15.0),
    row("claude-haiku-4-5", 200_000, 64_000).pdf().price(1.0, 5.0),
    // OpenAI
    row("gpt-3.5-turbo", 16_385, 4096).unstructured().price(0.5, 1.5),
    row("gpt-4-turbo", 128_000, 4096).images().unstructured().price(10.0, 30.0),
    row("gpt-4o", 128_000, 16_384).pdf().price(2.5, 10.0),
    row("gpt-4o-mini", 128_000, 16_384).pdf().price(0.15, 0.6),
    row("gpt-4o-audio", 128_000, 16_384).audio().unstructured().price(2.5, 10.0),
    row("gpt-4.1", 1_047_576, 32_768).pdf().price(2.0, 8.0),
    row("gpt-4.1-mini", 1_047_576, 32_768).pdf().price(0.4, 1.6),
    row("gpt-4.1-nano", 1_047_576, 32_768).pdf().price(0.1, 0.4),
    row("gpt-5", 400_000, 128_000).pdf().price(1.25, 10.0),
    row("gpt-5-mini", 400_000, 128_000).pdf().price(0.25, 2.0),
    row("gpt-5-nano", 400_000, 128_000).pdf().price(0.05, 0.4),
    row("gpt-5-chat", 128_000, 16_384).pdf().price(1.25, 10.0),
    row("gpt-5.2", 400_000, 128_000).pdf().price(1.75, 14.0),
    row("gpt-oss", 131_072, 65_536),
    row("o1", 200_000, 100_000).pdf().price(15.0, 60.0),
    row("o3", 200_000, 100_000).pdf().price(2.0, 8.0),
    row("o3-mini", 200_000, 100_000).price(1.1, 4.4),
    row("o4-mini", 200_000, 100_000).pdf().price(1.1, 4.4),
    // DeepSeek
    row("deepseek-chat", 131_072, 8192).unstructured().price(0.28, 0.42),
    row("deepseek-reasoner", 131_072, 65_536).unstructured().price(0.28, 0.42),
    row("deepseek-r1", 131_072, 32_768).unstructured(),
    row("deepseek-v3", 131_072, 32_768).unstructured(),
    // Meta, Qwen, Moonshot and others as hosted
    row("llama-3.1-8b-instant", 131_072, 131_072).unstructured().price(0.05, 0.08),
    row("llama-3.3-70b", 131_072, 32_768).unstructured().price(0.59, 0.79),
    row("llama-4-scout", 131_072, 8192).images(),
    row("llama-4-maverick", 131_072, 8192).images(),
    row("kimi-k2", 262_144, 16_384),
    row("qwen3-32b", 131_072, 40_960).unstructured(),
    row("qwen3-max", 262_144, 65_536).price(1.2, 6.0),
    row("glm-4.6", 200_000, 128_000).price(0.6, 2.2),
    row("sonar-pro", 200_000, 8000).images().price(3.0, 15.0),
    // Mistral
    row("mistral-large", 131_072, 32_768).images(),
    row("mistral-medium", 131_072, 32_768).images().price(0.4, 2.0),
    row("mistral-small", 131_072, 32_768).images().price(0.1, 0.3),
    row("magistral", 131_072, 40_960).images(),
    row("ministral", 131_072, 32_768),
    row("codestral", 262_144, 32_768).price(0.3, 0.9),
    row("devstral", 262_144, 32_768),
    row("pixtral", 131_072, 32_768).images(),
    // xAI
    row("grok-3", 131_072, 131_072).price(3.0, 15.0),
    row("grok-3-mini", 131_072, 131_072).price(0.3, 0.5),
    row("grok-4", 256_000, 256_000).images().price(3.0, 15.0),
    row("grok-4-fast", 2_000_000, 30_000).images().price(0.2, 0.5),
    row("grok-4-1-fast", 2_000_000, 30_000).images().price(0.2, 0.5),
    row("grok-code-fast", 256_000, 10_000).price(0.2, 1.5),
    // Google
    row("gemini-2.0-flash", 1_048_576, 8192).pdf().audio().price(0.1, 0.4),
    row("gemini-2.5-flash", 1_048_576, 65_536).pdf().audio().price(0.3, 2.5),
    row("gemini-2.5-flash-lite", 1_048_576, 65_536).pdf().audio().price(0.1, 0.4),
    row("gemini-2.5-pro", 1_048_576, 65_536).pdf().audio().price(1.25, 10.0),
    row("gemini-3", 1_048_576, 65_536).pdf().audio(),
];

/// The row that fits a model's name best.
///
/// ```
/// let entry = deepagents_models::catalogue::lookup("openrouter/anthropic/claude-sonnet-4.5:beta").unwrap();
/// assert_eq!(entry.context_window, 200_000);
/// ```
pub fn lookup(model: &str) -> Option<&'static Entry> {
    let name = model.rsplit('/').next().unwrap_or(model);
    ENTRIES.iter().filter(|entry| fits(name, entry.prefix)).max_by_key(|entry| entry.prefix.len())
}

/// A prefix ends where a part of the name ends: `o1` is no prefix of `o100`, but `gemini-3` is one of `gemini-3.1-pro`. A dot
/// and a dash are the same, since some services write `claude-sonnet-4.5` and some `claude-sonnet-4-5`.
fn fits(name: &str, prefix: &str) -> bool {
    let dashed = |c: char| if c == '.' { '-' } else { c };
    let mut name = name.chars().map(dashed);
    prefix.chars().all(|c| name.next() == Some(dashed(c))) && !name.next().is_some_and(|c| c.is_ascii_alphanumeric())
}

/// The price with what the provider takes for reading and writing its cache; where that is not known, as for any prompt.
fn cached(prefix: &str, price: Price) -> Price {
    let (read, write) = match prefix {
        claude if claude.starts_with("claude-") => (0.1, 1.25),
        gpt if gpt.starts_with("gpt-5") => (0.1, 1.0),
        gpt if gpt.starts_with("gpt-4.1") => (0.25, 1.0),
        gpt if gpt.starts_with("gpt-4o") => (0.5, 1.0),
        deepseek if deepseek.starts_with("deepseek-") => (0.1, 1.0),
        _ => (1.0, 1.0),
    };
    price.cached(price.input * read, price.input * write)
}

/// What is known of a model.
pub fn profile(model: &str) -> ModelProfile {
    let mut profile = ModelProfile::default();
    if let Some(entry) = lookup(model) {
        profile.context_window = Some(entry.context_window);
        profile.max_output = Some(entry.max_output);
        profile.structured_output = Some(entry.structured_output);
        profile.images = Some(entry.images);
        profile.pdf = Some(entry.pdf);
        profile.audio = Some(entry.audio);
        profile.video = Some(false);
        profile.price = entry.price.map(|(input, output)| cached(entry.prefix, Price::new(input, output)));
    }
    profile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_fitting_prefix_wins_and_the_unknown_stays_unknown() {
        let window = |name: &str| lookup(name).map(|entry| (entry.prefix, entry.max_output));
        assert_eq!(window("claude-opus-4-20250514"), Some(("claude-opus-4", 32_000)));
        assert_eq!(window("claude-opus-4-5-20251101"), Some(("claude-opus-4-5", 64_000)));
        assert_eq!(window("openai/gpt-4o-mini-2024-07-18"), Some(("gpt-4o-mini", 16_384)));
        assert_eq!(window("o100"), None);
        assert_eq!(profile("house-made"), ModelProfile::default());
    }

    #[test]
    fn prices_say_what_a_cached_prompt_costs() {
        let price = profile("claude-haiku-4-5-20251001").price.unwrap();
        assert_eq!((price.input, price.output, price.cache_read, price.cache_write), (1.0, 5.0, 0.1, 1.25));
        assert_eq!(profile("deepseek-v3").price, None);
    }
}
