//! What a model can do.

use serde::{Deserialize, Serialize};

use crate::message::Usage;

/// What is known of a model. Unknown is `None`; callers treat unknown abilities as present and unknown sizes as unknown.
///
/// ```
/// use deepagents_core::model::ModelProfile;
/// let mut profile = ModelProfile::default();
/// profile.context_window = Some(32_000);
/// profile.images = Some(false);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelProfile {
    /// Tokens a request may hold, answer included where the provider counts it.
    pub context_window: Option<u64>,
    /// Tokens an answer may hold.
    pub max_output: Option<u64>,
    /// Whether the provider itself holds answers to a JSON schema.
    pub structured_output: Option<bool>,
    /// Whether the provider honours [`CacheMarks`](super::CacheMarks).
    pub cache_marks: bool,
    /// Whether media can be sent in the system prompt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub system_media: bool,
    /// Whether pictures can be sent.
    pub images: Option<bool>,
    /// Whether sound can be sent.
    pub audio: Option<bool>,
    /// Whether video can be sent.
    pub video: Option<bool>,
    /// Whether PDF documents can be sent.
    pub pdf: Option<bool>,
    /// What its tokens cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// What a million tokens of each kind cost, in US dollars unless an application says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Price {
    /// Of the prompt, as far as it is neither read from a cache nor written to one.
    pub input: f64,
    /// Of the answer.
    pub output: f64,
    /// Of the prompt, read from a cache.
    pub cache_read: f64,
    /// Of the prompt, written to a cache.
    pub cache_write: f64,
    /// The prices of calls with a longer prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<PriceTier>,
}

/// What a million tokens of each kind cost in calls whose prompt is longer than so many tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PriceTier {
    /// Tokens of the prompt up to which the usual prices hold.
    pub tokens: u64,
    /// Of the prompt, as far as it is neither read from a cache nor written to one.
    pub input: f64,
    /// Of the answer.
    pub output: f64,
    /// Of the prompt, read from a cache.
    pub cache_read: f64,
    /// Of the prompt, written to a cache.
    pub cache_write: f64,
}

impl Price {
    /// The same price for all of the prompt.
    pub fn new(input: f64, output: f64) -> Self {
        Self { input, output, cache_read: input, cache_write: input, above: None }
    }

    /// Other prices for what is read from a cache and written to one.
    #[must_use]
    pub fn cached(mut self, read: f64, write: f64) -> Self {
        (self.cache_read, self.cache_write) = (read, write);
        self
    }

    /// What a call costs.
    ///
    /// ```
    /// use deepagents_core::{message::Usage, model::Price};
    /// let usage = Usage { input: 1_000_000, output: 100_000, cache_read: 900_000, ..Usage::default() };
    /// let cost = Price::new(3.0, 15.0).cached(0.3, 3.75).cost(usage);
    /// assert!((cost - (0.3 + 0.27 + 1.5)).abs() < 1e-9);
    /// ```
    ///
    /// A prompt longer than [`above`](Self::above) says costs the prices there, all of it.
    #[allow(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^53")]
    pub fn cost(&self, usage: Usage) -> f64 {
        let fresh = usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_write);
        let (input, output, read, write) = match self.above.filter(|tier| usage.input > tier.tokens) {
            Some(tier) => (tier.input, tier.output, tier.cache_read, tier.cache_write),
            None => (self.input, self.output, self.cache_read, self.cache_write),
        };
        let parts = [(fresh, input), (usage.cache_read, read), (usage.cache_write, write), (usage.output, output)];
        parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>() / 1_000_000.0
    }
}
