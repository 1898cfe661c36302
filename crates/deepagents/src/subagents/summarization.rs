//! Compaction settings in serializable form.

use deepagents_core::agent::BuildError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::middleware::summarization::{Size, SummarizationOptions, Trigger};

/// Compaction settings of a sub-agent.
///
/// A size is `["tokens", 60000]`, `["messages", 40]` or `["fraction", 0.8]`, or the equivalent `{"tokens": 60000}`. A
/// trigger is a size, an object of several sizes that must all be reached, or a list of which one must be.
///
/// ```
/// use deepagents::middleware::summarization::SummarizationOptions;
/// use deepagents::subagents::SummarizationSpec;
/// let early: SummarizationSpec =
///     serde_json::from_value(serde_json::json!({"trigger": ["tokens", 60_000], "keep": {"messages": 12}}))?;
/// let options = early.over(SummarizationOptions::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SummarizationSpec {
    /// When to compact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Value>,
    /// How much to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Value>,
    /// An alternative form of a trigger in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens_before_summary: Option<u64>,
    /// An alternative form of `keep` in messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_to_keep: Option<usize>,
}

impl SummarizationSpec {
    /// Applies these settings over others.
    ///
    /// # Errors
    /// Returns an error if a size is invalid, or if a setting is given in both forms.
    pub fn over(&self, options: SummarizationOptions) -> Result<SummarizationOptions, BuildError> {
        let twice = |one: &str, other: &str| {
            BuildError::Option(format!(
                "`{one}` and `{other}` are two spellings of the same key; give only one of them"
            ))
        };
        let options = match (&self.trigger, self.max_tokens_before_summary) {
            (Some(_), Some(_)) => return Err(twice("trigger", "max_tokens_before_summary")),
            (Some(given), None) => options.trigger(trigger(given)?),
            (None, Some(tokens)) => options.max_tokens_before_summary(tokens),
            (None, None) => options,
        };
        Ok(match (&self.keep, self.messages_to_keep) {
            (Some(_), Some(_)) => return Err(twice("keep", "messages_to_keep")),
            (Some(given), None) => options.keep(size(given)?),
            (None, Some(messages)) => options.messages_to_keep(messages),
            (None, None) => options,
        })
    }
}

fn no_size(given: &Value) -> BuildError {
    BuildError::Option(format!("{given} is not a valid size; write it as [\"tokens\", 60000]"))
}

/// Parses a single size.
fn size(given: &Value) -> Result<Size, BuildError> {
    match sizes(given)?.as_slice() {
        [one] => Ok(*one),
        _ => Err(no_size(given)),
    }
}

/// Parses sizes that must all be reached.
fn sizes(given: &Value) -> Result<Vec<Size>, BuildError> {
    match given {
        Value::Object(kinds) if !kinds.is_empty() => {
            kinds.iter().map(|(kind, number)| Size::parse(kind, number)).collect()
        }
        Value::Array(pair) => match pair.as_slice() {
            [Value::String(kind), number] => Ok(vec![Size::parse(kind, number)?]),
            _ => Err(no_size(given)),
        },
        _ => Err(no_size(given)),
    }
}

fn trigger(given: &Value) -> Result<Trigger, BuildError> {
    let clause = |given: &Value| {
        let all = sizes(given)?.into_iter().map(Trigger::at).reduce(Trigger::and);
        all.ok_or_else(|| no_size(given))
    };
    match given {
        Value::Array(clauses) if clauses.first().is_some_and(|first| !first.is_string()) => {
            let clauses = clauses.iter().map(clause).collect::<Result<Vec<_>, _>>()?;
            clauses.into_iter().reduce(Trigger::or).ok_or_else(|| no_size(given))
        }
        one => clause(one),
    }
}
