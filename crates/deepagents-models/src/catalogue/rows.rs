//! Parses the generated rows.

use deepagents_core::model::{Price, PriceTier};

use super::Entry;

/// Parses the rows of a text. Malformed rows are skipped; a test compares the counts.
pub(super) fn rows(text: &str) -> impl Iterator<Item = Entry> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(row)
}

/// Columns: name, context window, maximum output, capabilities, prices, prices above a threshold, last day.
fn row(line: &str) -> Option<Entry> {
    let mut cells = line.split('\t');
    let mut next = || cells.next().unwrap_or_default();
    let (prefix, window, output, flags, prices, tier, end) = (next(), next(), next(), next(), next(), next(), next());
    let has = |flag: char| flags.contains(flag);
    let above = tier.split_once(':').and_then(|(tokens, prices)| {
        let [input, output, cache_read, cache_write] = four(prices)?;
        Some(PriceTier { tokens: tokens.parse().ok()?, input, output, cache_read, cache_write })
    });
    let price = four(prices).map(|[input, output, read, write]| {
        let mut price = Price::new(input, output).cached(read, write);
        price.above = above;
        price
    });
    Some(Entry {
        prefix: Some(prefix).filter(|prefix| !prefix.is_empty())?.to_owned(),
        context_window: window.parse().ok()?,
        max_output: output.parse().unwrap_or_default(),
        images: has('i'),
        pdf: has('p'),
        audio: has('a'),
        video: has('v'),
        structured_output: has('s'),
        reasoning: has('r'),
        price,
        deprecated: Some(end).filter(|end| !end.is_empty()).map(str::to_owned),
    })
}

/// Prices of input, output, cache reads and cache writes; the latter two default to the input price.
fn four(text: &str) -> Option<[f64; 4]> {
    let mut prices = text.split('/').map(|price| price.parse::<f64>().ok());
    let (input, output) = (prices.next()??, prices.next()??);
    let mut other = || prices.next().flatten().unwrap_or(input);
    Some([input, output, other(), other()])
}
