//! What a model can do.

use serde::{Deserialize, Serialize};

/// What is known of a model. Unknown is `None`; callers treat unknown abilities as present and unknown sizes as unknown.
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
    /// Whether pictures can be sent.
    pub images: Option<bool>,
    /// Whether sound can be sent.
    pub audio: Option<bool>,
    /// Whether video can be sent.
    pub video: Option<bool>,
    /// Whether PDF documents can be sent.
    pub pdf: Option<bool>,
}
