//! Profiles: what is done differently for a provider or a model.
//!
//! A [`HarnessProfile`] changes the prompt, the tools and the middlewares of an agent whose model it is for.
//! [`Profiles`] finds the one for a model; the builder looks there by itself. A [`ProviderProfile`] says how the models
//! of a provider are made.

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
