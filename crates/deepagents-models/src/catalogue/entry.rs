//! A row of the catalogue.

use deepagents_core::model::Price;

/// A row of the catalogue.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// Prefix of the model's name.
    pub prefix: String,
    /// Context window in tokens; 0 if unknown.
    pub context_window: u64,
    /// Maximum output in tokens; 0 if unknown.
    pub max_output: u64,
    /// Whether the model accepts images.
    pub images: bool,
    /// Whether the model accepts PDF documents.
    pub pdf: bool,
    /// Whether the model accepts audio.
    pub audio: bool,
    /// Whether the model accepts video.
    pub video: bool,
    /// Whether the provider can constrain output to a schema.
    pub structured_output: bool,
    /// Whether the model reasons before it answers.
    pub reasoning: bool,
    /// List price, if known.
    pub price: Option<Price>,
    /// Last day on which the maker serves the model, as `YYYY-MM-DD`, if announced.
    pub deprecated: Option<String>,
}

impl Entry {
    /// Returns the provider that makes and serves the model, if its name shows it. Other providers may serve it too.
    ///
    /// ```
    /// use deepagents_models::Catalogue;
    /// let known = Catalogue::built_in();
    /// assert_eq!(known.lookup("claude-sonnet-4-5").and_then(|entry| entry.provider()), Some("anthropic"));
    /// assert_eq!(known.lookup("nova-lite").and_then(|entry| entry.provider()), None);
    /// ```
    pub fn provider(&self) -> Option<&'static str> {
        super::provider_of(&self.prefix)
    }
}
