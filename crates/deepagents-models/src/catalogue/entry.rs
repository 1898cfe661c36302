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
