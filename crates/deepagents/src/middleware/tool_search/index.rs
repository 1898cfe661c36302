//! A small search engine for tools: BM25 over the words of names, descriptions and arguments.

use std::collections::{BTreeMap, BTreeSet};

use deepagents_core::model::ToolSpec;
use serde_json::Value;

use crate::scripts;

/// The BM25 parameter k1: how quickly repeated words stop adding to the score.
const SATURATION: f64 = 1.2;
/// The BM25 parameter b: how much the length of a description counts.
const LENGTH_FACTOR: f64 = 0.75;
/// The weights of words in names and in descriptions; words of arguments have the weight 1.
const NAME_WEIGHT: usize = 4;
const DESCRIPTION_WEIGHT: usize = 2;

/// A searchable index of tools.
#[derive(Debug, Default)]
pub(super) struct Index {
    tools: Vec<Entry>,
    /// Number of tools that contain each word.
    with_word: BTreeMap<String, usize>,
    mean_length: f64,
}

#[derive(Debug)]
struct Entry {
    tool: ToolSpec,
    words: BTreeMap<String, usize>,
    length: f64,
}

impl Index {
    pub(super) fn new(tools: impl IntoIterator<Item = ToolSpec>) -> Self {
        let mut index = Self::default();
        for tool in tools {
            let mut words: BTreeMap<String, usize> = BTreeMap::new();
            let mut add = |text: &str, weight: usize| {
                for word in split(text) {
                    *words.entry(word).or_default() += weight;
                }
            };
            add(&tool.name, NAME_WEIGHT);
            add(&tool.description, DESCRIPTION_WEIGHT);
            arguments(&tool.schema, &mut |text| add(text, 1));
            for word in words.keys() {
                *index.with_word.entry(word.clone()).or_default() += 1;
            }
            let length = words.values().sum::<usize>() as f64;
            index.mean_length += length;
            index.tools.push(Entry { tool, words, length });
        }
        index.mean_length /= (index.tools.len() as f64).max(1.0);
        index
    }

    /// Returns the best matches, the best first.
    pub(super) fn search(&self, query: &str, most: usize) -> Vec<&ToolSpec> {
        let words: BTreeSet<String> = split(query).collect();
        let mut ranked: Vec<(f64, &ToolSpec)> = self
            .tools
            .iter()
            .map(|entry| {
                // An exact name always matches.
                let named = if entry.tool.name == query.trim() { f64::MAX } else { 0.0 };
                (words.iter().map(|word| self.score(entry, word)).sum::<f64>().max(named), &entry.tool)
            })
            .filter(|(score, _)| *score > 0.0)
            .collect();
        ranked.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.name.cmp(&y.name)));
        ranked.into_iter().take(most).map(|(_, tool)| tool).collect()
    }

    fn score(&self, entry: &Entry, word: &str) -> f64 {
        let Some(&count) = entry.words.get(word) else { return 0.0 };
        let (all, with) = (self.tools.len() as f64, self.with_word.get(word).copied().unwrap_or_default() as f64);
        let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
        let count = count as f64;
        let length = 1.0 - LENGTH_FACTOR + LENGTH_FACTOR * entry.length / self.mean_length.max(1.0);
        rarity * count * (SATURATION + 1.0) / (count + SATURATION * length)
    }
}

/// Adds the names and descriptions of arguments, at any depth.
fn arguments(schema: &Value, add: &mut impl FnMut(&str)) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("properties", Value::Object(properties)) => {
                        for (name, argument) in properties {
                            add(name);
                            arguments(argument, add);
                        }
                    }
                    ("description", Value::String(text)) => add(text),
                    (_, Value::Object(_) | Value::Array(_)) => arguments(value, add),
                    _ => {}
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| arguments(item, add)),
        _ => {}
    }
}

/// Splits a text into stemmed words, also those of `snake_case`, `kebab-case`, `camelCase` and `anHTTPName`. In scripts
/// without spaces between words, every pair of adjacent letters is a word.
fn split(text: &str) -> impl Iterator<Item = String> {
    let letters: Vec<char> = text.chars().collect();
    let near = |at: usize, by: isize| at.checked_add_signed(by).and_then(|at| letters.get(at)).copied();
    let (mut words, mut word): (Vec<String>, _) = (Vec::new(), String::new());
    for (at, &c) in letters.iter().enumerate() {
        let (before, next) = (near(at, -1), near(at, 1));
        if is_unspaced(c) {
            words.push(std::mem::take(&mut word));
            match next.filter(|next| is_unspaced(*next)) {
                Some(next) => words.push([c, next].iter().collect()),
                None if before.is_some_and(is_unspaced) => {}
                None => words.push(c.to_string()),
            }
            continue;
        }
        if !c.is_alphanumeric() || (c.is_uppercase() && is_border(before, next, near(at, 2))) {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
    }
    words.push(word);
    words.into_iter().filter(|word| !word.is_empty() && !COMMON.contains(&word.as_str())).map(|word| stem(&word))
}

/// Returns `true` if a capital between these begins a word: after a lower-case letter or digit, or as the last of
/// several capitals, except before the plural `s` of an acronym.
fn is_border(before: Option<char>, next: Option<char>, after: Option<char>) -> bool {
    let is_small = |c: Option<char>| c.is_some_and(char::is_lowercase);
    let is_plural = next == Some('s') && !is_small(after);
    before.is_some_and(|before| {
        before.is_lowercase() || before.is_numeric() || (before.is_uppercase() && is_small(next) && !is_plural)
    })
}

/// Returns `true` for a letter of a script without spaces between words.
fn is_unspaced(c: char) -> bool {
    scripts::is_unspaced(c) && c.is_alphanumeric()
}

/// Stop words.
const COMMON: [&str; 16] =
    ["a", "an", "the", "of", "to", "for", "and", "or", "in", "on", "with", "by", "mcp", "is", "this", "that"];

/// Removes the ending of a plural or a verb, if enough is left.
fn stem(word: &str) -> String {
    let cut = ["ies", "ing", "es", "ed", "s", "e", "y"].iter().find_map(|end| {
        let left = word.strip_suffix(end)?;
        (left.chars().count() >= 3).then_some(left)
    });
    cut.unwrap_or(word).to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str, schema: Value) -> ToolSpec {
        ToolSpec { name: name.to_owned(), description: description.to_owned(), schema: Arc::new(schema) }
    }

    fn found(query: &str) -> Vec<String> {
        let index = Index::new([
            tool("mcp__git__create_issue", "Opens an issue in a repository.", json!({"properties": {"title": {}}})),
            tool("mcp__git__listIssues", "Lists the issues of a repository.", json!({})),
            tool(
                "mcp__cal__book",
                "Books a room.",
                json!({"properties": {"attendees": {"description": "Who comes to the meeting."}}}),
            ),
            tool("mcp__mail__send", "Sends mail.", json!({})),
            tool("mcp__web__fetchHTTPPage", "Gets it.", json!({})),
            tool("mcp__web__listURLs", "Gets them.", json!({})),
            tool("mcp__hub__neu", "在仓库中创建一个新问题。", json!({})),
        ]);
        index.search(query, 2).into_iter().map(|tool| tool.name.clone()).collect()
    }

    #[test]
    fn tool_names_descriptions_and_arguments_match_in_any_word_form() {
        assert_eq!(found("creating an issue")[0], "mcp__git__create_issue");
        assert_eq!(found("list issues")[0], "mcp__git__listIssues");
        assert_eq!(found("meeting"), ["mcp__cal__book"]);
        assert_eq!(found("attendee"), ["mcp__cal__book"]);
        assert_eq!(found("mcp__mail__send")[0], "mcp__mail__send");
        assert_eq!(found("HTTP"), ["mcp__web__fetchHTTPPage"]);
        assert_eq!(found("list urls")[0], "mcp__web__listURLs");
        for query in ["创建问题", "创建一个新问题", "仓库"] {
            assert_eq!(found(query), ["mcp__hub__neu"], "{query}");
        }
        assert!(found("天气").is_empty());
        assert!(found("weather").is_empty() && found("").is_empty() && found("the of a").is_empty());
    }
}
