//! Profiles: adjustments for a provider or a model.
//!
//! A [`HarnessProfile`] changes the prompt, the tools and the middlewares of agents that use a given model.
//! [`Profiles`] finds the profile of a model; the builder looks it up automatically. A [`ProviderProfile`] defines how
//! the models of a provider are created.

mod apply;
mod builtin;
mod harness;
mod key;
#[cfg(feature = "models")]
mod provider;
mod registry;

pub use harness::{GeneralPurpose, HarnessProfile, ProfileConfig};
pub use key::ProfileError;
#[cfg(feature = "models")]
pub use provider::{OpenRouter, ProviderProfile, ProviderProfiles};
pub use registry::Profiles;
