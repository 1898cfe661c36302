//! Patterns of command rules, and matching them.

use super::options::{self, Operands};
use super::script::Simple;
use super::word::{Word, is_name};
use crate::search::{Token, matches_tokens};

/// A command pattern in a rule, such as `git push *`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandPattern {
    text: String,
    assignments: Vec<(String, Glob)>,
    program: Glob,
    /// Last component of the program's path, in lower case.
    name: Glob,
    args: Vec<Glob>,
    /// Whether further arguments may follow.
    open: bool,
}

/// Whether a rule that denies or asks applies to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    No,
    /// Depends on something computed, or on how the program parses its options.
    Perhaps,
    Yes,
}

impl CommandPattern {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut words = split(text)?.into_iter().peekable();
        let mut assignments = Vec::new();
        while let Some((name, value)) = words.peek().and_then(Glob::assignment) {
            assignments.push((name, value));
            words.next();
        }
        let program = words.next().ok_or("it does not name a program; write one, such as `git push *`")?;
        let mut args: Vec<Glob> = words.collect();
        let open = args.pop_if(|last| last.is_any()).is_some();
        let name = program.to_lower().base_name();
        Ok(Self { text: text.to_owned(), assignments, program, name, args, open })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether an allowing rule with this pattern covers the command: word for word, with nothing computed
    /// except where the pattern matches anything.
    pub(super) fn allows(&self, simple: &Simple) -> bool {
        let Some((program, args)) = simple.words.split_first() else { return false };
        let known = |glob: &Glob, word: &Word| glob.is_any() || word.known().is_some_and(|text| glob.matches(text));
        let set = simple.assignments.iter().filter(|(name, _)| !is_private(name));
        let is_listed = |(name, value): &(String, Word)| {
            self.assignments.iter().any(|(own, glob)| own == name && known(glob, value))
        };
        program.known().is_some_and(|program| self.program.matches(program))
            && set.into_iter().all(is_listed)
            && (args.len() == self.args.len() || (self.open && args.len() > self.args.len()))
            && self.args.iter().zip(args).all(|(glob, word)| known(glob, word))
    }

    /// Returns whether a denying or asking rule with this pattern covers the command, with any path to the program, any
    /// order and spelling of options, and any further arguments.
    pub(super) fn takes_away(&self, simple: &Simple) -> Match {
        let Some((program, args)) = simple.words.split_first() else { return Match::No };
        // A computed program name is reported as a doubt.
        let Some(program) = program.known() else { return Match::No };
        let by_program = self.of_program(program);
        if by_program == Match::No {
            return Match::No;
        }
        let mut all = by_program.min(self.of_arguments(base_name(program), args));
        for (name, glob) in &self.assignments {
            let values = simple.assignments.iter().filter(|(own, _)| own == name).map(|(_, value)| value);
            all = all.min(values.map(|value| glob.of(value)).max().unwrap_or(Match::No));
        }
        all
    }

    /// Returns whether a word may name the pattern's program. `false` for a pattern that matches all programs.
    pub(super) fn may_name(&self, word: &str) -> bool {
        !self.name.is_any() && self.name.matches(&base_name(word).to_ascii_lowercase())
    }

    fn of_program(&self, program: &str) -> Match {
        // Some file systems are case-insensitive.
        let (own, program) = (self.program.to_lower(), program.to_ascii_lowercase());
        match () {
            () if own.matches(&normal(&program)) => Match::Yes,
            () if !self.program.has_slash() && own.matches(base_name(&program)) => Match::Yes,
            // The same name at another path may be the same program.
            () if self.program.has_slash() && own.base_name().matches(base_name(&program)) => Match::Perhaps,
            () => Match::No,
        }
    }

    /// Options may be anywhere; operands must be in order.
    fn of_arguments(&self, program: &str, args: &[Word]) -> Match {
        let (options, operands): (Vec<&Glob>, Vec<&Glob>) = self.args.iter().partition(|glob| glob.is_option());
        let by_options = options.iter().map(|option| options::has(program, args, option)).min();
        let by_operands = Operands::new(program, args).contain(&operands);
        by_options.unwrap_or(Match::Yes).min(by_operands)
    }
}

/// Returns the last component of a path.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Removes empty and `.` components from a path.
fn normal(path: &str) -> String {
    let absolute = if path.starts_with('/') { "/" } else { "" };
    let parts = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect::<Vec<_>>().join("/");
    // `./x` is not looked up in `PATH`.
    let here = if path.contains('/') && absolute.is_empty() { "./" } else { "" };
    format!("{absolute}{here}{parts}")
}

/// Returns whether a variable is private to the command text. By POSIX, lower-case variables have no effect on the
/// standard utilities; the exceptions are ones that programs read regardless.
pub(super) fn is_private(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !name.ends_with("_proxy")
        && !name.starts_with("npm_")
}

/// A word of a pattern, in which unquoted `*` and `?` are wildcards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Glob(Vec<Token>);

impl Glob {
    pub(super) fn is_any(&self) -> bool {
        self.0 == [Token::Text]
    }

    pub(super) fn is_option(&self) -> bool {
        matches!(self.0.as_slice(), [Token::Char('-'), _, ..])
    }

    /// Returns the text if there are no wildcards.
    pub(super) fn literal(&self) -> Option<String> {
        let literal = |token: &Token| if let Token::Char(c) = token { Some(*c) } else { None };
        self.0.iter().map(literal).collect()
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        matches_tokens(&self.0, text)
    }

    /// Returns whether the glob matches a word.
    pub(super) fn of(&self, word: &Word) -> Match {
        match word {
            Word::Known(text) if self.matches(text) => Match::Yes,
            Word::Known(_) => Match::No,
            Word::Computed(Some(begins)) if !self.may_begin_with(begins) => Match::No,
            Word::Computed(_) => Match::Perhaps,
        }
    }

    fn may_begin_with(&self, begins: &str) -> bool {
        let tokens = self.0.iter().take_while(|token| **token != Token::Text);
        let stars = self.0.contains(&Token::Text);
        let length = tokens.clone().count();
        (stars || begins.chars().count() <= length) && tokens.zip(begins.chars()).all(|(token, c)| token.matches(c))
    }

    fn to_lower(&self) -> Self {
        let lower = |token: &Token| match token {
            Token::Char(c) => Token::Char(c.to_ascii_lowercase()),
            token => token.clone(),
        };
        Self(self.0.iter().map(lower).collect())
    }

    fn has_slash(&self) -> bool {
        self.0.contains(&Token::Char('/'))
    }

    fn base_name(&self) -> Self {
        Self(self.0.rsplit(|token| *token == Token::Char('/')).next().unwrap_or_default().to_vec())
    }

    /// Returns the variable and its value if this is an assignment.
    fn assignment(&self) -> Option<(String, Self)> {
        let at = self.0.iter().position(|token| *token == Token::Char('='))?;
        let name = Self(self.0.get(..at)?.to_vec()).literal().filter(|name| is_name(name))?;
        Some((name, Self(self.0.get(at + 1..)?.to_vec())))
    }
}

/// Splits a pattern into words. Quotes and backslashes make characters literal.
fn split(text: &str) -> Result<Vec<Glob>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<Vec<Token>> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let token = match (quote, c) {
            (Some(open), c) if c == open => {
                quote = None;
                continue;
            }
            (Some('\''), c) => Token::Char(c),
            (_, '\\') => Token::Char(chars.next().ok_or("a backslash at its end escapes nothing")?),
            (Some(_), c) => Token::Char(c),
            (None, '\'' | '"') => {
                (quote, word) = (Some(c), Some(word.unwrap_or_default()));
                continue;
            }
            (None, ' ' | '\t') => {
                words.extend(word.take().map(Glob));
                continue;
            }
            (None, '*') => Token::Text,
            (None, '?') => Token::Any,
            (None, ';' | '&' | '|' | '<' | '>' | '(' | ')' | '$' | '`' | '\n') => {
                return Err(
                    "a rule is about one simple command; write one for each, and quote whatever is special to a shell",
                );
            }
            (None, c) => Token::Char(c),
        };
        word.get_or_insert_default().push(token);
    }
    if quote.is_some() {
        return Err("a quote is not closed");
    }
    words.extend(word.map(Glob));
    Ok(words)
}
