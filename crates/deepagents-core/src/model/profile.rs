//! Capabilities, limits and prices of models.

use serde::{Deserialize, Serialize};

use crate::message::Usage;

/// What is known of a model; `None` means unknown. Callers treat unknown capabilities as present and unknown sizes as
/// unknown.
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
    /// Maximum tokens of a request, including the answer if the provider counts it.
    pub context_window: Option<u64>,
    /// Maximum tokens of an answer.
    pub max_output: Option<u64>,
    /// Whether the provider itself enforces a JSON schema for answers.
    pub structured_output: Option<bool>,
    /// Whether the provider honours [`CacheMarks`](super::CacheMarks).
    pub cache_marks: bool,
    /// Whether the system prompt may contain media.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub system_media: bool,
    /// Whether images can be sent.
    pub images: Option<bool>,
    /// Whether audio can be sent.
    pub audio: Option<bool>,
    /// Whether video can be sent.
    pub video: Option<bool>,
    /// Whether PDF documents can be sent.
    pub pdf: Option<bool>,
    /// MIME types of the documents other than PDF that can be sent. Unlike with other media, what is not listed cannot
    /// be sent, because most providers take PDF alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<String>,
    /// The price of its tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// How much more a prompt token costs that is written to a cache for an hour instead of five minutes: twice the input
/// price instead of 1.25 times.
const HOUR_FACTOR: f64 = 1.6;

/// Prices per million tokens of each kind, in US dollars unless an application defines otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Price {
    /// Prompt tokens neither read from nor written to a cache.
    pub input: f64,
    /// Answer tokens.
    pub output: f64,
    /// Prompt tokens read from a cache.
    pub cache_read: f64,
    /// Prompt tokens written to a cache. Those written for an hour cost 1.6 times as much.
    pub cache_write: f64,
    /// Prices of calls with a longer prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<PriceTier>,
}

/// Prices per million tokens of each kind for calls whose prompt exceeds a number of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PriceTier {
    /// Prompt size in tokens up to which the usual prices apply.
    pub tokens: u64,
    /// Prompt tokens neither read from nor written to a cache.
    pub input: f64,
    /// Answer tokens.
    pub output: f64,
    /// Prompt tokens read from a cache.
    pub cache_read: f64,
    /// Prompt tokens written to a cache.
    pub cache_write: f64,
}

impl Price {
    /// Creates a price that is the same for the whole prompt.
    pub fn new(input: f64, output: f64) -> Self {
        Self { input, output, cache_read: input, cache_write: input, above: None }
    }

    /// Sets separate prices for tokens read from and written to a cache.
    #[must_use]
    pub fn cached(mut self, read: f64, write: f64) -> Self {
        (self.cache_read, self.cache_write) = (read, write);
        self
    }

    /// Returns the cost of a call.
    ///
    /// ```
    /// use deepagents_core::{message::Usage, model::Price};
    /// let usage = Usage { input: 1_000_000, output: 100_000, cache_read: 900_000, ..Usage::default() };
    /// let cost = Price::new(3.0, 15.0).cached(0.3, 3.75).cost(usage);
    /// assert!((cost - (0.3 + 0.27 + 1.5)).abs() < 1e-9);
    /// ```
    ///
    /// Tokens written to a cache for an hour cost more than those for five minutes:
    ///
    /// ```
    /// use deepagents_core::{message::Usage, model::Price};
    /// let usage = Usage { input: 2_000_000, cache_write: 2_000_000, cache_write_hour: 1_000_000, ..Usage::default() };
    /// assert!((Price::new(3.0, 15.0).cached(0.3, 3.75).cost(usage) - (3.75 + 6.0)).abs() < 1e-9);
    /// ```
    ///
    /// If the prompt is longer than the threshold of [`above`](Self::above), the prices there apply to the whole call.
    #[allow(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^53")]
    pub fn cost(&self, usage: Usage) -> f64 {
        let fresh = usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_write);
        let (input, output, read, write) = match self.above.filter(|tier| usage.input > tier.tokens) {
            Some(tier) => (tier.input, tier.output, tier.cache_read, tier.cache_write),
            None => (self.input, self.output, self.cache_read, self.cache_write),
        };
        let hour = usage.cache_write_hour.min(usage.cache_write);
        let parts = [
            (fresh, input),
            (usage.cache_read, read),
            (usage.cache_write.saturating_sub(hour), write),
            (hour, write * HOUR_FACTOR),
            (usage.output, output),
        ];
        parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>() / 1_000_000.0
    }
}
