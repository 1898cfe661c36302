//! What models that call one of several need: a profile for all of them, the request for each, and its price.

use std::sync::Arc;

use deepagents_core::model::{ChatModel, ModelOutput, ModelProfile, ModelRequest, Price, PriceTier};

/// Headers that say which trace a request belongs to, whatever server it is sent to.
const TRACE: [&str; 2] = ["traceparent", "tracestate"];

/// Returns the capabilities of the first model, reduced to the limits of all, since any of them may be called. The price
/// is the highest, and unknown if one of them is.
pub(crate) fn profile_for_any<'a>(models: impl IntoIterator<Item = &'a Arc<dyn ChatModel>>) -> ModelProfile {
    let mut profiles = models.into_iter().map(|model| model.profile());
    let mut profile = profiles.next().unwrap_or_default();
    for other in profiles {
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        profile.context_window = least(profile.context_window, other.context_window);
        profile.max_output = least(profile.max_output, other.max_output);
        let both = |a: Option<bool>, b: Option<bool>| if b == Some(false) { b } else { a };
        profile.structured_output = both(profile.structured_output, other.structured_output);
        profile.images = both(profile.images, other.images);
        profile.audio = both(profile.audio, other.audio);
        profile.video = both(profile.video, other.video);
        profile.pdf = both(profile.pdf, other.pdf);
        profile.documents.retain(|kind| other.documents.contains(kind));
        profile.price = profile.price.zip(other.price).map(|(one, two)| highest(one, two));
    }
    profile
}

/// Returns a price that no call of either is above.
fn highest(one: Price, two: Price) -> Price {
    let above = [one, two].map(|price| {
        price.above.unwrap_or(PriceTier {
            tokens: u64::MAX,
            input: price.input,
            output: price.output,
            cache_read: price.cache_read,
            cache_write: price.cache_write,
        })
    });
    let most = |part: fn(&PriceTier) -> f64| above.iter().map(part).fold(0.0, f64::max);
    let mut price = Price::new(one.input.max(two.input), one.output.max(two.output))
        .cached(one.cache_read.max(two.cache_read), one.cache_write.max(two.cache_write));
    let tier = PriceTier {
        tokens: above.iter().map(|tier| tier.tokens).min().unwrap_or(u64::MAX),
        input: most(|tier| tier.input).max(price.input),
        output: most(|tier| tier.output).max(price.output),
        cache_read: most(|tier| tier.cache_read).max(price.cache_read),
        cache_write: most(|tier| tier.cache_write).max(price.cache_write),
    };
    price.above = Some(tier).filter(|tier| tier.tokens < u64::MAX);
    price
}

/// Adapts a request that is meant for the first model: a model of another provider gets neither its extra fields nor
/// its headers, except those of the trace.
pub(crate) fn request_for(model: &dyn ChatModel, first: &dyn ChatModel, request: &ModelRequest) -> ModelRequest {
    let mut request = request.clone();
    if provider(model) != provider(first) {
        request.settings.extra.clear();
        request.headers.retain(|(name, _)| TRACE.iter().any(|trace| name.eq_ignore_ascii_case(trace)));
    }
    request
}

/// Returns the provider in a model's name, or the whole name if there is none.
fn provider(model: &dyn ChatModel) -> &str {
    model.name().split_once(':').map_or(model.name(), |(provider, _)| provider)
}

/// Notes the price of the model that answered, unless that is itself one of several.
pub(crate) fn note_price(output: &mut ModelOutput, price: Option<Price>) {
    output.price = output.price.or(price);
}
