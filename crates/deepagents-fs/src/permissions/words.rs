//! Splits the text of a command into words that may name files.

use super::programs::is_named_as_one;

/// Programs that look up a bare file name in their working directory; a version number may follow the name.
const TAKE_FILES: [&str; 32] = [
    "sh",
    "bash",
    "zsh",
    "dash",
    "ash",
    "ksh",
    "mksh",
    "csh",
    "tcsh",
    "fish",
    "nu",
    "pwsh",
    "python",
    "pypy",
    "node",
    "ruby",
    "perl",
    "php",
    "lua",
    "luajit",
    "tclsh",
    "expect",
    "Rscript",
    "julia",
    "bun",
    "deno",
    "tsx",
    "ts-node",
    "osascript",
    "wish",
    "source",
    ".",
];
/// Words after which a program follows.
const LEAD_IN: [&str; 23] = [
    "exec", "env", "command", "nohup", "time", "timeout", "nice", "setsid", "sudo", "xargs", "-exec", "if", "then",
    "elif", "else", "while", "until", "do", "run", "npx", "bunx", "uvx", "watch",
];

/// A word of a command that may name a file.
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    /// The previous word of the command, ignoring options other than `-m`.
    pub(super) before: &'a str,
    /// Whether the word is in the position of a program.
    is_first: bool,
    /// Whether the word is a module that a program runs, as in `python3 -m tools.lint`.
    is_module: bool,
}

impl Word<'_> {
    /// Returns whether the word may name a file here. A name without a directory is looked up in `PATH`, unless it
    /// follows a program that runs files.
    pub(super) fn may_be_here(&self) -> bool {
        self.text.contains('/') || is_named_as_one(self.text) || takes_files(self.before)
    }

    /// Returns whether the word is in the position of a program.
    pub(super) fn is_program(&self) -> bool {
        self.is_first
    }

    /// Returns whether the word is an option whose value is the text of a command.
    pub(super) fn takes_text(&self) -> bool {
        self.text.starts_with('-') && !self.text.starts_with("--") && self.text.ends_with('c')
    }

    /// Returns the file here that the program before the word runs, whether it exists or not.
    pub(super) fn file_of_a_program(&self) -> Option<String> {
        let is_name =
            !self.text.starts_with('-') && self.text.chars().all(|c| c.is_alphanumeric() || "-_./+".contains(c));
        if self.is_module {
            return is_name.then(|| format!("{}.py", self.text.replace('.', "/")));
        }
        // These look up a bare name in `PATH`.
        let takes_it = takes_files(self.before) && !matches!(self.before, "." | "source");
        (is_name && takes_it).then(|| self.text.to_owned())
    }

    /// Returns whether the word may name a file here that is run. Words after other programs are their data.
    pub(super) fn may_be_run(&self) -> bool {
        takes_files(self.before) || self.is_first && self.may_be_here()
    }
}

/// Returns the words of a command that may name files.
pub(super) fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    let (mut before, mut is_first, mut is_value, mut is_module) = ("", true, false, false);
    text.split_inclusive(is_separator).filter_map(move |piece| {
        let text = piece.trim_end_matches(is_separator);
        let word = Word { text, before, is_first, is_module };
        if !text.is_empty() {
            let is_option = text.starts_with('-');
            // The next word is itself a command.
            let takes_text = word.takes_text();
            let is_number = text.starts_with(|c: char| c.is_ascii_digit());
            let leads_in = LEAD_IN.contains(&last_part(text)) || takes_text;
            let sets = std::mem::replace(&mut is_value, piece.ends_with('=')) || is_value;
            is_first = leads_in || is_first && (is_option || is_number || sets);
            if !is_option || takes_text || text == "-m" {
                is_module = text == "-m" && takes_files(before);
                before = text;
            }
        }
        match piece.chars().next_back() {
            Some('\n' | ';' | '|' | '&' | '(' | ')' | '`') => (before, is_first, is_value) = ("", true, false),
            // A file that is read or written.
            Some('<' | '>') => (before, is_first) = ("", false),
            _ => {}
        }
        Some(word).filter(|word| !word.text.is_empty())
    })
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || "'\";|&()!<>=`${}".contains(c)
}

/// Returns whether a program runs a file named after it.
pub(super) fn takes_files(program: &str) -> bool {
    let name = last_part(program);
    TAKE_FILES.contains(&name) || TAKE_FILES.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
}

pub(super) fn last_part(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Replaces `$NAME` and `${NAME}` by spaces, so that what follows a variable is looked up in the known directories.
/// Joins continued lines.
pub(super) fn without_variables(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains('$') && !text.contains("\\\n") {
        return text.into();
    }
    let (mut out, mut chars) = (String::with_capacity(text.len()), text.chars().peekable());
    while let Some(c) = chars.next() {
        if c == '\\' && chars.next_if_eq(&'\n').is_some() {
            out.push(' ');
            continue;
        }
        if c != '$' {
            out.push(c);
            continue;
        }
        out.push(' ');
        if chars.next_if_eq(&'{').is_some() {
            // `${NAME:-tools/x}` contains another word.
            while chars.next_if(|c| c.is_alphanumeric() || "_:-".contains(*c)).is_some() {}
        } else {
            while chars.next_if(|c| c.is_alphanumeric() || *c == '_').is_some() {}
        }
    }
    out.into()
}
