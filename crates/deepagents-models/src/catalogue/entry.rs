//! A row of the catalogue.

use deepagents_core::model::Price;

/// A row of the catalogue.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// How the model's name begins.
    pub prefix: String,
    /// Tokens a request may hold; 0 where unknown.
    pub context_window: u64,
    /// Tokens an answer may hold; 0 where unknown.
    pub max_output: u64,
    /// Whether pictures can be sent.
    pub images: bool,
    /// Whether PDF documents can be sent.
    pub pdf: bool,
    /// Whether sound can be sent.
    pub audio: bool,
    /// Whether video can be sent.
    pub video: bool,
    /// Whether the provider holds answers to a schema.
    pub structured_output: bool,
    /// Whether it thinks before it answers.
    pub reasoning: bool,
    /// List price, where known.
    pub price: Option<Price>,
    /// The day after which the maker does not serve it, as `YYYY-MM-DD`, where one is set.
    pub deprecated: Option<String>,
}
