//! Token counts.

use serde::{Deserialize, Serialize};

/// Tokens of one model call, or the sum of several.
///
/// `input` counts every prompt token, cached or not; `cache_read` and `cache_write` are parts of it, and
/// `cache_write_hour` is part of `cache_write`. `reasoning` is part of `output`.
///
/// ```
/// use deepagents_core::message::Usage;
/// let mut sum = Usage { input: 1_200, output: 34, cache_read: 1_000, ..Usage::default() };
/// sum += Usage { input: 100, output: 6, ..Usage::default() };
/// assert_eq!(sum.total(), 1_340);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All prompt tokens.
    pub input: u64,
    /// Answer tokens, including reasoning.
    pub output: u64,
    /// Prompt tokens read from the provider's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write: u64,
    /// Prompt tokens written to the provider's cache for [an hour](crate::model::CacheTtl::OneHour), which costs more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_hour: u64,
    /// Answer tokens spent on reasoning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Usage {
    /// Returns the sum of input and output.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cache_write_hour = self.cache_write_hour.saturating_add(other.cache_write_hour);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

impl std::iter::Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(usages: I) -> Self {
        usages.fold(Self::default(), |mut sum, usage| {
            sum += usage;
            sum
        })
    }
}
