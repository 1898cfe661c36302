//! One component of a glob.

/// A compiled component: matches one name, never a `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// Any number of whole components: `**`.
    Globstar,
    /// This name alone.
    Literal(String),
    /// A name that ends so: `*.rs`.
    Suffix(String),
    /// Anything else.
    Glob(Vec<Token>),
}

/// A part of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Char(char),
    /// `?`
    One,
    /// `*`
    Many,
    /// `[…]`
    Class {
        negated: bool,
        items: Vec<Item>,
    },
}

/// A part of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Range(char, char),
    Named(Named),
}

/// A POSIX class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Alnum,
    Alpha,
    Blank,
    Cntrl,
    Digit,
    Graph,
    Lower,
    Print,
    Punct,
    Space,
    Upper,
    Word,
    Xdigit,
}

impl Segment {
    pub(super) fn compile(text: &str) -> Self {
        if text == "**" {
            return Self::Globstar;
        }
        let tokens = tokens(text);
        let chars = |tokens: &[Token]| -> Option<String> {
            tokens.iter().map(|token| if let Token::Char(c) = token { Some(*c) } else { None }).collect()
        };
        if let Some(name) = chars(&tokens) {
            return Self::Literal(name);
        }
        match tokens.split_first() {
            Some((Token::Many, rest)) => chars(rest).map_or_else(|| Self::Glob(tokens.clone()), Self::Suffix),
            _ => Self::Glob(tokens),
        }
    }

    /// Whether it matches a name. A name that begins with a dot must be named by one, unless `dots` count like others.
    pub(super) fn matches(&self, name: &str, dots: bool) -> bool {
        let hidden = !dots && name.starts_with('.');
        match self {
            Self::Globstar => !hidden,
            Self::Literal(text) => text == name,
            Self::Suffix(end) => !hidden && name.ends_with(end.as_str()),
            Self::Glob(tokens) => {
                (!hidden || matches!(tokens.first(), Some(Token::Char('.')))) && matches(tokens, name)
            }
        }
    }

    pub(super) fn literal(&self) -> Option<&str> {
        if let Self::Literal(name) = self { Some(name) } else { None }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let token = match c {
            '*' if out.last() == Some(&Token::Many) => continue,
            '*' => Token::Many,
            '?' => Token::One,
            '\\' => Token::Char(rest.next().unwrap_or('\\')),
            '[' => match class(rest.as_str()) {
                Some((token, after)) => {
                    rest = after.chars();
                    token
                }
                None => Token::Char('['),
            },
            c => Token::Char(c),
        };
        out.push(token);
    }
    out
}

/// A class from behind its `[`, and what follows it; none if it is not closed.
fn class(text: &str) -> Option<(Token, &str)> {
    let (negated, body) = match text.strip_prefix(['!', '^']) {
        Some(body) => (true, body),
        None => (false, text),
    };
    let mut items = Vec::new();
    let mut rest = body;
    // A `]` that comes first is one of the characters.
    while !rest.starts_with(']') || items.is_empty() {
        if let Some((named, after)) = named(rest) {
            items.push(Item::Named(named));
            rest = after;
            continue;
        }
        let (first, after) = character(rest)?;
        rest = after;
        match after.strip_prefix('-').filter(|end| !end.starts_with(']')).and_then(character) {
            Some((last, after)) => {
                items.push(Item::Range(first, last));
                rest = after;
            }
            None => items.push(Item::Range(first, first)),
        }
    }
    Some((Token::Class { negated, items }, rest.strip_prefix(']')?))
}

fn character(text: &str) -> Option<(char, &str)> {
    let text = text.strip_prefix('\\').filter(|rest| !rest.is_empty()).unwrap_or(text);
    let mut chars = text.chars();
    Some((chars.next()?, chars.as_str()))
}

fn named(text: &str) -> Option<(Named, &str)> {
    let (name, rest) = text.strip_prefix("[:")?.split_once(":]")?;
    let named = match name {
        "alnum" => Named::Alnum,
        "alpha" => Named::Alpha,
        "blank" => Named::Blank,
        "cntrl" => Named::Cntrl,
        "digit" => Named::Digit,
        "graph" => Named::Graph,
        "lower" => Named::Lower,
        "print" => Named::Print,
        "punct" => Named::Punct,
        "space" => Named::Space,
        "upper" => Named::Upper,
        "word" => Named::Word,
        "xdigit" => Named::Xdigit,
        _ => return None,
    };
    Some((named, rest))
}

/// Matches with one point of return, so the cost is at most the product of the lengths.
fn matches(tokens: &[Token], name: &str) -> bool {
    let (mut pattern, mut text) = (tokens, name.chars());
    let mut back: Option<(&[Token], std::str::Chars<'_>)> = None;
    loop {
        if let Some((Token::Many, after)) = pattern.split_first() {
            pattern = after;
            back = Some((after, text.clone()));
            continue;
        }
        let mut ahead = text.clone();
        match (pattern.split_first(), ahead.next()) {
            (None, None) => return true,
            (Some((token, after)), Some(c)) if token.matches(c) => {
                pattern = after;
                text = ahead;
            }
            _ => {
                // The last `*` takes one character more.
                let Some((after, mut from)) = back.take() else { return false };
                if from.next().is_none() {
                    return false;
                }
                pattern = after;
                text = from.clone();
                back = Some((after, from));
            }
        }
    }
}

impl Token {
    fn matches(&self, c: char) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::One | Self::Many => true,
            Self::Class { negated, items } => items.iter().any(|item| item.matches(c)) != *negated,
        }
    }
}

impl Item {
    fn matches(&self, c: char) -> bool {
        match self {
            Self::Range(first, last) => (*first..=*last).contains(&c),
            Self::Named(named) => match named {
                Named::Alnum => c.is_alphanumeric(),
                Named::Alpha => c.is_alphabetic(),
                Named::Blank => c == ' ' || c == '\t',
                Named::Cntrl => c.is_control(),
                Named::Digit => c.is_ascii_digit(),
                Named::Graph => c.is_ascii_graphic(),
                Named::Lower => c.is_lowercase(),
                Named::Print => c.is_ascii_graphic() || c == ' ',
                Named::Punct => c.is_ascii_punctuation(),
                Named::Space => c.is_whitespace(),
                Named::Upper => c.is_uppercase(),
                Named::Word => c.is_alphanumeric() || c == '_',
                Named::Xdigit => c.is_ascii_hexdigit(),
            },
        }
    }
}
