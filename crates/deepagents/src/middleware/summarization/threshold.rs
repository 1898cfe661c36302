//! Thresholds of compaction.

use deepagents_core::agent::BuildError;
use serde_json::Value;

/// A size of the conversation.
///
/// ```
/// use deepagents::middleware::summarization::Size;
/// assert_eq!(Size::parse("tokens", &serde_json::json!(60_000))?, Size::Tokens(60_000));
/// assert!(Size::parse("fraction", &serde_json::json!(2)).is_err());
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Size {
    /// A number of messages. A summary counts as one, together with the message of a person that is kept beside it.
    Messages(usize),
    /// A number of tokens, including the system prompt and tools.
    Tokens(u64),
    /// A fraction of the model's context window, above 0 and at most 1.
    Fraction(f64),
}

/// A condition that holds when one of its clauses holds; a clause holds when all of its sizes are reached.
///
/// ```
/// use deepagents::middleware::summarization::Trigger;
/// let either = Trigger::messages(400).or(Trigger::fraction(0.85));
/// let both = Trigger::tokens(50_000).and(Trigger::messages(20));
/// assert_ne!(either, both);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trigger {
    clauses: Vec<Vec<Size>>,
}

/// The length of the conversation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    pub(super) messages: usize,
    pub(super) tokens: u64,
    /// The model's context window, if known.
    pub(super) window: Option<u64>,
}

impl Size {
    /// Parses a size from its kind: `messages`, `tokens` or `fraction`.
    ///
    /// # Errors
    /// Returns an error if the kind is unknown or the number is invalid for it.
    pub fn parse(kind: &str, number: &Value) -> Result<Self, BuildError> {
        let whole = || {
            let wrong = || option(&format!("{kind} must be a whole number greater than 0, got {number}"));
            number.as_u64().filter(|n| *n > 0).ok_or_else(wrong)
        };
        let size = match kind {
            "messages" => Self::Messages(usize::try_from(whole()?).unwrap_or(usize::MAX)),
            "tokens" => Self::Tokens(whole()?),
            "fraction" => Self::Fraction(
                number.as_f64().ok_or_else(|| option(&format!("fraction must be a number, got {number}")))?,
            ),
            other => return Err(option(&format!("unknown size `{other}`; use messages, tokens or fraction"))),
        };
        size.check(None)?;
        Ok(size)
    }

    /// Rejects an invalid size; given the window, also a fraction of an unknown one.
    pub(super) fn check(self, window: Option<Option<u64>>) -> Result<(), BuildError> {
        match self {
            Self::Messages(0) | Self::Tokens(0) => Err(option(&format!("a size must be greater than 0, got {self:?}"))),
            Self::Fraction(share) if !(share > 0.0 && share <= 1.0) => {
                Err(option(&format!("a fraction must be above 0 and at most 1, got {share}")))
            }
            Self::Fraction(_) if window == Some(None) => Err(option(
                "a fraction of the context window was given, but the model's window is unknown; set `context_window`, or \
                 give tokens or messages",
            )),
            _ => Ok(()),
        }
    }

    /// Returns the size in tokens, or `None` for messages and for a fraction of an unknown window.
    pub(super) fn tokens(self, window: Option<u64>) -> Option<u64> {
        match self {
            Self::Messages(_) => None,
            Self::Tokens(tokens) => Some(tokens),
            Self::Fraction(share) => window.map(|window| scaled(window, share)),
        }
    }

    fn reached(self, length: Length, part: f64) -> bool {
        match self {
            Self::Messages(n) => length.messages as u64 >= scaled(n as u64, part),
            _ => self.tokens(length.window).is_some_and(|n| length.tokens >= scaled(n, part)),
        }
    }
}

impl Trigger {
    /// Fires at this number of messages.
    #[must_use]
    pub fn messages(messages: usize) -> Self {
        Self::at(Size::Messages(messages))
    }

    /// Fires when a request has this number of tokens.
    #[must_use]
    pub fn tokens(tokens: u64) -> Self {
        Self::at(Size::Tokens(tokens))
    }

    /// Fires when a request fills this fraction of the model's window.
    #[must_use]
    pub fn fraction(share: f64) -> Self {
        Self::at(Size::Fraction(share))
    }

    /// Fires when a size is reached.
    #[must_use]
    pub fn at(size: Size) -> Self {
        Self { clauses: vec![vec![size]] }
    }

    /// Never fires.
    #[must_use]
    pub fn never() -> Self {
        Self::default()
    }

    /// Returns the number of messages that is sufficient by itself, if there is one.
    pub(super) fn fewest_messages(&self) -> Option<usize> {
        let alone = |clause: &Vec<Size>| match clause.as_slice() {
            [Size::Messages(n)] => Some(*n),
            _ => None,
        };
        self.clauses.iter().filter_map(alone).min()
    }

    /// Fires when either condition holds.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.clauses.extend(other.clauses);
        self
    }

    /// Fires when both conditions hold.
    #[must_use]
    #[allow(clippy::needless_pass_by_value, reason = "reads like `or`, and triggers are made on the spot")]
    pub fn and(self, other: Self) -> Self {
        let both = |mine: &Vec<Size>| other.clauses.iter().map(|theirs| [&**mine, theirs].concat()).collect::<Vec<_>>();
        Self { clauses: self.clauses.iter().flat_map(both).collect() }
    }

    pub(super) fn check(&self, window: Option<u64>) -> Result<(), BuildError> {
        self.clauses.iter().flatten().try_for_each(|size| size.check(Some(window)))
    }

    pub(super) fn met(&self, length: Length) -> bool {
        self.met_by(length, 1.0)
    }

    /// Returns `true` if this fraction of the sizes is reached.
    pub(super) fn met_by(&self, length: Length, part: f64) -> bool {
        self.clauses.iter().any(|sizes| sizes.iter().all(|size| size.reached(length, part)))
    }

    /// Returns `true` if it depends on anything but the number of messages.
    pub(super) fn counts_tokens(&self) -> bool {
        self.clauses.iter().flatten().any(|size| !matches!(size, Size::Messages(_)))
    }
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of tokens are far below 2^53"
)]
fn scaled(n: u64, part: f64) -> u64 {
    ((n as f64 * part) as u64).max(1)
}

fn option(text: &str) -> BuildError {
    BuildError::Option(format!("summarization: {text}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn length(messages: usize, tokens: u64, window: Option<u64>) -> Length {
        Length { messages, tokens, window }
    }

    #[test]
    fn a_trigger_fires_when_the_size_is_reached_not_only_when_exceeded() {
        assert!(Trigger::messages(6).met(length(6, 0, None)));
        assert!(!Trigger::messages(6).met(length(5, 0, None)));
        assert!(Trigger::fraction(0.5).met(length(1, 500, Some(1000))));
        assert!(!Trigger::never().met(length(usize::MAX, u64::MAX, Some(1))));
    }

    #[test]
    fn all_sizes_of_a_clause_must_hold_and_any_clause_suffices() {
        let trigger = Trigger::messages(10).and(Trigger::tokens(100)).or(Trigger::tokens(1000));
        assert!(!trigger.met(length(10, 99, None)));
        assert!(trigger.met(length(10, 100, None)));
        assert!(trigger.met(length(1, 1000, None)));
    }

    #[test]
    fn a_share_of_an_unknown_window_never_triggers_and_fails_the_check() {
        assert!(!Trigger::fraction(0.1).met(length(9, u64::MAX, None)));
        assert!(Trigger::fraction(0.1).check(None).is_err());
        assert!(Trigger::fraction(0.1).check(Some(10)).is_ok());
    }

    #[test]
    fn invalid_sizes_are_rejected_with_the_reason() {
        for (kind, number, reason) in [
            ("fraction", json!(1.5), "above 0 and at most 1"),
            ("fraction", json!(0), "above 0 and at most 1"),
            ("tokens", json!(0), "greater than 0"),
            ("messages", json!(2.5), "whole number"),
            ("messages", json!(true), "whole number"),
            ("lines", json!(1), "unknown size `lines`"),
        ] {
            let error = Size::parse(kind, &number).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        assert_eq!(Size::parse("messages", &json!(3)).unwrap(), Size::Messages(3));
    }
}
