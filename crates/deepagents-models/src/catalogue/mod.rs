//! What is known of the models that people use: sizes, abilities and prices.
//!
//! The data stand in `models.tsv`, which `.ci/catalogue.py` makes. Rows are matched by the beginning of the model's name,
//! the longest match wins; a gateway's prefix (`anthropic/claude-…`) and a host's (`eu.anthropic.claude-…`) are passed
//! over. What is unknown stays unknown: the profile of a model that is not listed is the empty one.

mod entry;
mod overrides;
mod rows;

use std::sync::{Arc, LazyLock};

use deepagents_core::model::ModelProfile;

pub use self::entry::Entry;
pub use self::overrides::CatalogueError;

static BUILT_IN: LazyLock<Catalogue> =
    LazyLock::new(|| Catalogue { rows: rows::rows(include_str!("models.tsv")).map(Arc::new).collect() });

/// A list of models. Clones share their rows.
///
/// ```
/// use deepagents_models::catalogue::Catalogue;
/// let entry = Catalogue::built_in().lookup("openrouter/anthropic/claude-sonnet-4.5:beta").ok_or("not listed")?;
/// assert_eq!(entry.context_window, 200_000);
/// let ours = Catalogue::built_in().with_json(r#"{"house-made": {"context_window": 32000}}"#)?;
/// assert_eq!(ours.profile("house-made-2").context_window, Some(32_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    rows: Vec<Arc<Entry>>,
}

impl Catalogue {
    /// The models that are known from the start.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// The rows, by name.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.rows.iter().map(|row| &**row)
    }

    /// The row that fits a model's name best.
    pub fn lookup(&self, model: &str) -> Option<&Entry> {
        let name = bare(model);
        self.entries().filter(|entry| fits(name, &entry.prefix)).max_by_key(|entry| entry.prefix.len())
    }

    /// What is known of a model.
    pub fn profile(&self, model: &str) -> ModelProfile {
        let mut profile = ModelProfile::default();
        if let Some(entry) = self.lookup(model) {
            let known = |tokens: u64| (tokens > 0).then_some(tokens);
            profile.context_window = known(entry.context_window);
            profile.max_output = known(entry.max_output);
            profile.structured_output = Some(entry.structured_output);
            profile.images = Some(entry.images);
            profile.pdf = Some(entry.pdf);
            profile.audio = Some(entry.audio);
            profile.video = Some(entry.video);
            profile.price = entry.price;
        }
        profile
    }
}

/// Who made models that Bedrock names with their maker in front.
const MAKERS: [&str; 9] =
    ["anthropic", "amazon", "meta", "mistral", "deepseek", "qwen", "openai", "moonshotai", "minimax"];

/// A model's name without the gateway and the host.
fn bare(model: &str) -> &str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let mut parts = name.split('.');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let hosted = match () {
        () if MAKERS.contains(&first) => name.split_once('.'),
        // A region may stand before the maker.
        () if MAKERS.contains(&second) => name.split_once('.').and_then(|(_, rest)| rest.split_once('.')),
        () => None,
    };
    hosted.map_or(name, |(_, bare)| bare)
}

/// A prefix ends where a part of the name ends: `o1` is no prefix of `o100`, but `gemini-3` is one of `gemini-3.1-pro`. A dot
/// and a dash are the same, since some services write `claude-sonnet-4.5` and some `claude-sonnet-4-5`.
fn fits(name: &str, prefix: &str) -> bool {
    let dashed = |c: char| if c == '.' { '-' } else { c };
    let mut name = name.chars().map(dashed);
    prefix.chars().all(|c| name.next() == Some(dashed(c))) && !name.next().is_some_and(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_fitting_prefix_wins_and_the_unknown_stays_unknown() {
        let known = Catalogue::built_in();
        let window = |name: &str| known.lookup(name).map(|entry| (entry.prefix.as_str(), entry.max_output));
        assert_eq!(window("claude-opus-4-20250514"), Some(("claude-opus-4", 32_000)));
        assert_eq!(window("eu.anthropic.claude-opus-4-5-20251101-v1:0"), Some(("claude-opus-4-5", 64_000)));
        assert_eq!(window("openai/gpt-4o-mini"), Some(("gpt-4o-mini", 16_384)));
        assert_eq!(window("amazon.nova-lite-v1:0"), Some(("nova-lite", 10_000)));
        assert_eq!(window("o100"), None);
        for model in ["gpt-5", "gpt-5-pro", "gpt-5.1-codex", "gpt-5.1-codex-mini"] {
            assert_eq!(known.profile(model).context_window, Some(272_000), "{model}");
        }
        assert_eq!(known.profile("house-made"), ModelProfile::default());
    }

    #[test]
    fn every_row_is_read_and_none_is_empty() {
        let lines = include_str!("models.tsv").lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(Catalogue::built_in().entries().count(), lines);
        assert!(lines > 300 && include_str!("models.tsv").len() < 100_000);
        assert!(Catalogue::built_in().entries().all(|entry| !entry.prefix.is_empty() && entry.context_window > 0));
    }

    #[test]
    fn prices_say_what_a_cached_prompt_and_a_long_one_cost() {
        let price = |name: &str| Catalogue::built_in().profile(name).price.unwrap();
        let haiku = price("claude-haiku-4-5-20251001");
        assert_eq!((haiku.input, haiku.output, haiku.cache_read, haiku.cache_write), (1.0, 5.0, 0.1, 1.25));
        let above = price("gemini-2.5-pro").above.unwrap();
        assert_eq!((above.tokens, above.input, above.output, above.cache_read), (200_000, 2.5, 15.0, 0.25));
    }
}
