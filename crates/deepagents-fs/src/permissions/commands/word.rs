//! Words of a command, and what is known of the text a program will receive.

use rable::{Node, NodeKind};

use super::script::Doubt;

/// A word after quote removal, as far as it is known without running anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Exactly this text in every shell.
    Known(String),
    /// Computed: any number of words. All begin with this text, if it is known.
    Computed(Option<String>),
}

impl Word {
    /// Returns the text, if known.
    pub(super) fn known(&self) -> Option<&str> {
        match self {
            Self::Known(text) => Some(text),
            Self::Computed(_) => None,
        }
    }

    /// Formats the word for people, with `…` for unknown text.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Known(text) => quoted(text),
            Self::Computed(begins) => format!("{}…", begins.as_deref().unwrap_or_default()),
        }
    }
}

/// Quotes a word for a rule or a person: in single quotes if it contains special characters.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%^".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Content of a substitution.
pub(super) enum Inner<'a> {
    Node(&'a Node),
    /// Deeply nested content, which the parser leaves as text.
    Text(&'a str),
}

/// Removes the quotes of a word. Calls `inner` with the content of its substitutions.
///
/// Syntax that shells read differently (`$'…'`, `{a,b}`) counts as computed, as does everything that depends on files,
/// variables or the home directory. Anything that might run something unseen is a doubt.
pub(super) fn read(
    word: &Node,
    known: &dyn Fn(&str) -> Option<String>,
    inner: &mut dyn FnMut(Inner<'_>) -> Result<(), Doubt>,
) -> Result<Word, Doubt> {
    let NodeKind::Word { parts, value, .. } = &word.kind else { return Err(Doubt::NotRead) };
    // In backquotes, backslashes have another meaning, and the parser leaves them in place.
    let escapes = value.contains('`') && value.contains('\\');
    let mut reader = Reader::default();
    for part in parts {
        match &part.kind {
            NodeKind::WordLiteral { value } => match value.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')')) {
                Some(text) if reader.quote != Quote::Single => {
                    inner(Inner::Text(text))?;
                    reader.expand();
                }
                _ => reader.literal(value)?,
            },
            NodeKind::CommandSubstitution { brace: false, .. } if escapes => return Err(Doubt::Expansion),
            NodeKind::CommandSubstitution { command, brace: false } => {
                inner(Inner::Node(command))?;
                reader.expand();
            }
            NodeKind::ProcessSubstitution { command, .. } => {
                inner(Inner::Node(command))?;
                reader.compute(false);
            }
            NodeKind::ParamExpansion { param, op: None, .. }
                if known(param).is_some_and(|value| is_one_word(&value)) =>
            {
                reader.begun = true;
                reader.text.extend(known(param));
            }
            NodeKind::ParamExpansion { param, op, arg } => {
                parameter(param, op.as_deref(), arg.as_deref())?;
                // These special parameters are numbers and expand to one word each.
                if matches!(param.as_str(), "?" | "#" | "$" | "!") { reader.compute(true) } else { reader.expand() }
            }
            NodeKind::ParamLength { param } if is_name(param) => reader.compute(true),
            // Shells disagree on where one with a backslash ends.
            NodeKind::AnsiCQuote { content, .. } if content.contains('\\') => return Err(Doubt::NotRead),
            NodeKind::LocaleString { content, .. } | NodeKind::BraceExpansion { content }
                if content.contains(['$', '`', '\\', '<', '>']) =>
            {
                return Err(Doubt::Expansion);
            }
            NodeKind::AnsiCQuote { .. } | NodeKind::LocaleString { .. } | NodeKind::BraceExpansion { .. } => {
                reader.compute(false);
            }
            NodeKind::ArithmeticExpansion { expression: Some(expression) } if is_sum(expression) => {
                reader.compute(true)
            }
            // Arithmetic evaluates the values of variables, which may contain substitutions.
            NodeKind::ArithmeticExpansion { .. } => return Err(Doubt::Arithmetic),
            _ => return Err(Doubt::NotRead),
        }
    }
    reader.end()
}

/// Accepts parameter expansions that run nothing.
fn parameter(name: &str, operation: Option<&str>, argument: Option<&str>) -> Result<(), Doubt> {
    let special = matches!(name, "?" | "#" | "$" | "!" | "@" | "*" | "-" | "0");
    let plain = |argument: &str| !argument.contains(['$', '`', '\\', '\'', '"']);
    // `:` alone takes a substring by arithmetic, and `@` may expand the value as a prompt.
    let known = matches!(operation, None | Some(":-" | "-" | ":+" | "+" | ":?" | "?" | "#" | "##" | "%" | "%%"));
    if (special || is_name(name) || name.bytes().all(|byte| byte.is_ascii_digit()))
        && known
        && argument.is_none_or(plain)
    {
        Ok(())
    } else {
        Err(Doubt::Expansion)
    }
}

/// Returns whether an expansion to this text is one word that is not expanded further, in quotes or not.
fn is_one_word(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_alphanumeric() || "-_./+,:@%=".contains(c))
}

/// Returns whether a text can be the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns whether an arithmetic expression contains only numbers.
fn is_sum(expression: &Node) -> bool {
    match &expression.kind {
        NodeKind::ArithNumber { value } => value.bytes().all(|byte| byte.is_ascii_digit()),
        NodeKind::ArithBinaryOp { left, right, .. } => is_sum(left) && is_sum(right),
        NodeKind::ArithUnaryOp { operand, .. } => is_sum(operand),
        _ => false,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Quote {
    #[default]
    None,
    Single,
    Double,
}

/// Reads the parts of a word.
#[derive(Debug, Default)]
struct Reader {
    quote: Quote,
    text: String,
    /// Known prefix, once something is computed.
    computed: Option<Option<String>>,
    begun: bool,
}

impl Reader {
    fn literal(&mut self, text: &str) -> Result<(), Doubt> {
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match (self.quote, c) {
                (Quote::Single, '\'') | (Quote::Double, '"') => self.quote = Quote::None,
                (Quote::None, '\'') => self.quote = Quote::Single,
                (Quote::None, '"') => self.quote = Quote::Double,
                (Quote::None, '\\') => match chars.next() {
                    Some('\n') => {}
                    Some(escaped) => self.text.push(escaped),
                    None => return Err(Doubt::NotRead),
                },
                (Quote::Double, '\\') => match chars.peek() {
                    Some('\n') => drop(chars.next()),
                    Some('$' | '`' | '"' | '\\') => self.text.extend(chars.next()),
                    _ => self.text.push(c),
                },
                (Quote::None | Quote::Double, '`') => return Err(Doubt::Expansion),
                (Quote::None | Quote::Double, '$') => match chars.peek() {
                    Some(next) if next.is_ascii_alphanumeric() || "_({['\"!@#*?$-`".contains(*next) => {
                        // The closing quote of a word does not start another one.
                        if self.quote == Quote::Double && *next == '"' {
                            self.text.push(c);
                        } else {
                            return Err(Doubt::Expansion);
                        }
                    }
                    _ => self.text.push(c),
                },
                (Quote::None, '*' | '?' | '[') => {
                    self.compute(true);
                    self.text.push(c);
                }
                (Quote::None, '~') if !self.begun => self.compute(false),
                // Shells agree on where a word ends, but not on these characters left unquoted inside it.
                (Quote::None, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')') => {
                    return Err(Doubt::NotRead);
                }
                _ => self.text.push(c),
            }
            self.begun = true;
        }
        Ok(())
    }

    /// Adds an expansion, which is split into words unless quoted.
    fn expand(&mut self) {
        self.compute(self.quote == Quote::Double);
    }

    /// Adds something unknown. If it is `one` piece of a word, the word's prefix stays known.
    fn compute(&mut self, one: bool) {
        self.begun = true;
        if self.computed.is_none() || !one {
            self.computed = Some(one.then(|| self.text.clone()));
        }
    }

    fn end(self) -> Result<Word, Doubt> {
        match (self.quote, self.computed) {
            (Quote::None, None) => Ok(Word::Known(self.text)),
            (Quote::None, Some(begins)) => Ok(Word::Computed(begins)),
            _ => Err(Doubt::NotRead),
        }
    }
}
