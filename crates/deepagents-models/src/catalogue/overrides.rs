//! User overrides of the catalogue.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::model::Price;
use serde::Deserialize;

use super::{Catalogue, Entry};

/// A list of models is invalid.
#[derive(Debug, thiserror::Error)]
#[error(
    "the list of models cannot be read: {0}; write it as {{\"MODEL\": {{\"context_window\": N, \"price\": {{\"input\": USD, \"output\": USD}}}}}}"
)]
pub struct CatalogueError(#[from] serde_json::Error);

/// Overrides for a model; unset fields keep their known values.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Override {
    context_window: Option<u64>,
    max_output: Option<u64>,
    images: Option<bool>,
    pdf: Option<bool>,
    audio: Option<bool>,
    video: Option<bool>,
    structured_output: Option<bool>,
    reasoning: Option<bool>,
    price: Option<OverridePrice>,
}

/// US dollars per million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverridePrice {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

impl Override {
    fn over(self, known: Entry) -> Entry {
        let price = self.price.map(|price| {
            let (read, write) = (price.cache_read.unwrap_or(price.input), price.cache_write.unwrap_or(price.input));
            Price::new(price.input, price.output).cached(read, write)
        });
        Entry {
            prefix: known.prefix,
            context_window: self.context_window.unwrap_or(known.context_window),
            max_output: self.max_output.unwrap_or(known.max_output),
            images: self.images.unwrap_or(known.images),
            pdf: self.pdf.unwrap_or(known.pdf),
            audio: self.audio.unwrap_or(known.audio),
            video: self.video.unwrap_or(known.video),
            structured_output: self.structured_output.unwrap_or(known.structured_output),
            reasoning: self.reasoning.unwrap_or(known.reasoning),
            price: price.or(known.price),
            deprecated: known.deprecated,
        }
    }
}

impl Catalogue {
    /// Returns this catalogue with overrides from a JSON object, keyed by prefixes of model names. Unset fields keep
    /// the values of the best previous match. Prices are in US dollars per million tokens.
    ///
    /// # Errors
    /// Returns an error if the text is not such an object; none of it is applied then.
    pub fn with_json(&self, json: &str) -> Result<Self, CatalogueError> {
        let given: BTreeMap<String, Override> = serde_json::from_str(json)?;
        let mut rows = self.rows.clone();
        for (prefix, told) in given {
            let unlisted = Entry { images: true, pdf: true, structured_output: true, ..Entry::default() };
            let known = self.lookup(&prefix).cloned().unwrap_or(unlisted);
            rows.retain(|row| row.prefix != prefix);
            rows.push(Arc::new(told.over(Entry { prefix, ..known })));
        }
        Ok(Self { rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_entries_override_the_catalogue_and_the_rest_is_kept() {
        let json =
            r#"{"gpt-5.2": {"price": {"input": 1, "output": 2, "cache_read": 0.5}}, "house": {"context_window": 9}}"#;
        let ours = Catalogue::built_in().with_json(json).unwrap();
        let profile = ours.profile("gpt-5.2-2025-12-11");
        let price = profile.price.unwrap();
        assert_eq!((price.input, price.output, price.cache_read, price.cache_write), (1.0, 2.0, 0.5, 1.0));
        assert_eq!(profile.max_output, Some(128_000));
        assert_eq!((ours.profile("house").context_window, ours.profile("house").max_output), (Some(9), None));
    }

    #[test]
    fn a_misspelt_field_is_an_error_that_shows_the_format() {
        let error = Catalogue::built_in().with_json(r#"{"m": {"contextwindow": 1}}"#).unwrap_err().to_string();
        assert!(error.contains("contextwindow") && error.contains("\"context_window\": N"), "{error}");
    }
}
