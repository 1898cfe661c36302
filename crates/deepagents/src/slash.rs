//! Slash commands, and the messages they expand to.

/// The placeholder for all arguments in the text of a command.
const ARGUMENTS: &str = "ARGUMENTS";
/// The prefix of commands that name a skill.
const SKILL: &str = "skill:";

/// A parsed slash command.
///
/// ```
/// use deepagents::slash::Slash;
/// let typed = Slash::parse("/git:fix 42 soon").unwrap();
/// assert_eq!((typed.name, typed.args, typed.skill()), ("git:fix", "42 soon", None));
/// assert_eq!(Slash::parse("/skill:pdf read it").unwrap().skill(), Some("pdf"));
/// assert_eq!(Slash::parse("/etc/hosts is broken"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slash<'a> {
    /// The name, without the slash.
    pub name: &'a str,
    /// The text after the name, trimmed.
    pub args: &'a str,
}

impl<'a> Slash<'a> {
    /// Parses a slash command. Returns `None` if the text does not begin with a slash, or begins with a path:
    /// `/usr/bin` is not a name.
    pub fn parse(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix('/')?;
        let (name, args) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let is_name = name.starts_with(SKILL) || !name.contains('/');
        is_name.then(|| Self { name, args: args.trim() })
    }

    /// Returns the skill that the command names, as in `/skill:pdf`.
    pub fn skill(&self) -> Option<&'a str> {
        self.name.strip_prefix(SKILL)
    }

    /// Returns the message that uses a skill: the arguments, or a default text without any.
    pub fn skill_message(&self) -> String {
        match (self.args, self.skill()) {
            ("", Some(skill)) => format!("Use the skill {skill}."),
            (args, _) => args.to_owned(),
        }
    }
}

/// Expands the text of a command with the arguments typed after its name. `$ARGUMENTS` stands for all of them, `$1` to
/// `$9` for single words; quotes and `\` group words as in a shell. If the text has no placeholder, the arguments are
/// appended to it.
///
/// ```
/// use deepagents::slash::message;
/// assert_eq!(message("Fix issue $1: $ARGUMENTS", "'4 2' soon"), "Fix issue 4 2: '4 2' soon");
/// assert_eq!(message("Say hello.", "to Ada"), "Say hello.\n\nto Ada");
/// ```
pub fn message(text: &str, args: &str) -> String {
    let words = quoted_words(args);
    let (mut out, mut rest, mut used) = (String::new(), text, false);
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let digit = after.chars().next().and_then(|c| c.to_digit(10)).filter(|digit| *digit > 0);
        if let Some(behind) = after.strip_prefix(ARGUMENTS) {
            (rest, used) = (behind, true);
            out.push_str(args);
        } else if let Some(digit) = digit {
            let word = usize::try_from(digit).ok().and_then(|digit| words.get(digit - 1));
            out.push_str(word.map(String::as_str).unwrap_or_default());
            (rest, used) = (after.strip_prefix(|c: char| c.is_ascii_digit()).unwrap_or(after), true);
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    if !used && !args.is_empty() {
        out = format!("{}\n\n{args}", out.trim_end());
    }
    out
}

/// Splits a text into words as a shell does; an unclosed quote extends to the end.
fn quoted_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(chars.next()),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
