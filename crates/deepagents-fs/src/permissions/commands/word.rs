//! Words of a command: what is known of the text that a program will get.

use rable::{Node, NodeKind};

use super::script::Doubt;

/// A word after the shell has taken off quotes, as far as that can be told without running anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// This text, whatever shell reads it.
    Known(String),
    /// Computed: any number of words. All begin with this text where that is known.
    Computed(Option<String>),
}

impl Word {
    /// The text, if it is known.
    pub(super) fn known(&self) -> Option<&str> {
        match self {
            Self::Known(text) => Some(text),
            Self::Computed(_) => None,
        }
    }

    /// As it is shown to people: what is not known is three dots.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Known(text) => quoted(text),
            Self::Computed(begins) => format!("{}…", begins.as_deref().unwrap_or_default()),
        }
    }
}

/// A word for a rule or a person: in single quotes where anything in it would mean something.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%^".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// What a substitution runs.
pub(super) enum Inner<'a> {
    Node(&'a Node),
    /// The grammar leaves what is nested deeply as text.
    Text(&'a str),
}

/// Takes the quotes off a word. What its substitutions run is handed to `inner`.
///
/// What shells read differently (`$'…'`, `{a,b}`) is computed, and so is what depends on files, variables or the home
/// directory. What might run something in a way that cannot be seen is a doubt.
pub(super) fn read(word: &Node, inner: &mut dyn FnMut(Inner<'_>) -> Result<(), Doubt>) -> Result<Word, Doubt> {
    let NodeKind::Word { parts, value, .. } = &word.kind else { return Err(Doubt::NotRead) };
    // Behind a backquote a backslash says something else, and the grammar leaves it where it is.
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
            NodeKind::ParamExpansion { param, op, arg } => {
                parameter(param, op.as_deref(), arg.as_deref())?;
                // The numbers among the special parameters are one word each.
                if matches!(param.as_str(), "?" | "#" | "$" | "!") { reader.compute(true) } else { reader.expand() }
            }
            NodeKind::ParamLength { param } if is_name(param) => reader.compute(true),
            // Where one with a backslash ends, shells do not agree.
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
            // Arithmetic evaluates the values of variables, and they may hold substitutions.
            NodeKind::ArithmeticExpansion { .. } => return Err(Doubt::Arithmetic),
            _ => return Err(Doubt::NotRead),
        }
    }
    reader.end()
}

/// A parameter whose expansion runs nothing.
fn parameter(name: &str, operation: Option<&str>, argument: Option<&str>) -> Result<(), Doubt> {
    let special = matches!(name, "?" | "#" | "$" | "!" | "@" | "*" | "-" | "0");
    let plain = |argument: &str| !argument.contains(['$', '`', '\\', '\'', '"']);
    // `:` alone takes a part by arithmetic, and `@` may expand the value as a prompt.
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

/// Whether it can name a variable.
pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether arithmetic is about numbers alone.
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

/// Reads the parts of one word.
#[derive(Debug, Default)]
struct Reader {
    quote: Quote,
    text: String,
    /// What is known of the beginning, once something is computed.
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
                        // The quote that ends the word is no beginning of another one.
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
                // Where a word ends, shells agree; what is left here unquoted, they do not.
                (Quote::None, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')') => {
                    return Err(Doubt::NotRead);
                }
                _ => self.text.push(c),
            }
            self.begun = true;
        }
        Ok(())
    }

    /// Something that the shell puts in, and splits into words where it is not quoted.
    fn expand(&mut self) {
        self.compute(self.quote == Quote::Double);
    }

    /// Something that is not known. If it is `one` thing, the beginning of the word stays what it is.
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
