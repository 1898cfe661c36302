//! Syntax highlighting.
//!
//! A lexer that knows strings, comments, numbers and the keywords of common languages. It needs no start-up time and no
//! memory, whereas editor grammars need tens of milliseconds and megabytes.

use std::collections::HashSet;
use std::sync::LazyLock;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::theme::Theme;

/// The keywords of a family of languages, collected when one of them is first shown.
type Words = LazyLock<HashSet<&'static str>>;

/// The comment syntax and keywords of a family of languages.
struct Syntax {
    line_comment: &'static str,
    /// Whether `/*` begins a comment.
    has_block_comments: bool,
    quotes: &'static str,
    words: &'static Words,
}

static C_LIKE: Words = LazyLock::new(|| {
    words(
        "as async await break case catch class const continue crate default defer do else enum export extends extern
        false final finally fn for from func function go if impl import in interface let loop match mod module move mut
        new nil null package private protected pub public ref return select self static struct super switch this throw
        trait true try type typeof undefined union unsafe use using var virtual void where while yield int char bool
        string float double long namespace template override val when object",
    )
});
static PYTHON: Words = LazyLock::new(|| {
    words(
        "and as assert async await break class continue def del elif else except False finally for from global if import
        in is lambda match case None nonlocal not or pass raise return self True try while with yield end do then module
        require unless nil true false local function",
    )
});
static SHELL: Words = LazyLock::new(|| {
    words(
        "if then else elif fi for while until do done case esac function in return exit export local set cd echo source
        true false",
    )
});
static SQL: Words = LazyLock::new(|| {
    words(
        "SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE INDEX DROP ALTER JOIN LEFT RIGHT INNER OUTER
        ON AS AND OR NOT NULL PRIMARY KEY GROUP BY ORDER LIMIT DISTINCT UNION CASE WHEN THEN ELSE END WITH",
    )
});
static DATA: Words = LazyLock::new(|| words("true false null yes no"));

fn words(all: &'static str) -> HashSet<&'static str> {
    all.split_whitespace().collect()
}

fn syntax(language: &str) -> Option<Syntax> {
    let of = |line_comment, has_block_comments, quotes, words| {
        Some(Syntax { line_comment, has_block_comments, quotes, words })
    };
    match language.to_ascii_lowercase().as_str() {
        "rust" | "rs" => of("//", true, "\"", &C_LIKE),
        "c" | "h" | "cpp" | "c++" | "cc" | "hpp" | "java" | "kotlin" | "kt" | "scala" | "swift" | "go" | "js"
        | "jsx" | "ts" | "tsx" | "javascript" | "typescript" | "cs" | "csharp" | "zig" | "dart" | "php" | "proto"
        | "css" | "scss" => of("//", true, "\"'`", &C_LIKE),
        "python" | "py" | "ruby" | "rb" | "elixir" | "ex" | "julia" | "jl" | "r" | "nim" => {
            of("#", false, "\"'", &PYTHON)
        }
        "lua" => of("--", false, "\"'", &PYTHON),
        "sh" | "bash" | "zsh" | "shell" | "console" | "fish" | "dockerfile" | "make" | "makefile" => {
            of("#", false, "\"'", &SHELL)
        }
        "sql" => of("--", true, "'\"", &SQL),
        "json" | "jsonc" | "json5" => of("//", true, "\"", &DATA),
        "yaml" | "yml" | "toml" | "ini" | "conf" | "nix" => of("#", false, "\"'", &DATA),
        _ => None,
    }
}

/// Highlights the lines of a piece of code.
pub(super) fn highlight(code: &str, language: &str, theme: Theme) -> Vec<Line<'static>> {
    let language = language.split([' ', ',', '{']).next().unwrap_or_default();
    if matches!(language, "diff" | "patch") {
        return code.lines().map(|line| diff_line(line, theme)).collect();
    }
    let Some(syntax) = syntax(language) else {
        return code.lines().map(|line| Line::from(Span::styled(line.to_owned(), theme.code))).collect();
    };
    let mut in_comment = false;
    code.lines().map(|line| lex(line, &syntax, &mut in_comment, theme)).collect()
}

fn diff_line(line: &str, theme: Theme) -> Line<'static> {
    let style = match line.chars().next() {
        Some('+') => theme.added,
        Some('-') => theme.removed,
        Some('@') => theme.accent,
        _ => theme.code,
    };
    Line::from(Span::styled(line.to_owned(), style))
}

fn lex(line: &str, syntax: &Syntax, in_comment: &mut bool, theme: Theme) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut push = |text: &str, style: Style| {
        if !text.is_empty() {
            spans.push(Span::styled(text.to_owned(), style));
        }
    };
    let mut rest = line;
    while !rest.is_empty() {
        if *in_comment {
            let length = rest.find("*/").map(|at| at + 2);
            *in_comment = length.is_none();
            let (comment, after) = rest.split_at(length.unwrap_or(rest.len()));
            push(comment, theme.comment);
            rest = after;
            continue;
        }
        if rest.starts_with(syntax.line_comment) {
            push(rest, theme.comment);
            break;
        }
        if let Some(after) = rest.strip_prefix("/*").filter(|_| syntax.has_block_comments) {
            *in_comment = true;
            push("/*", theme.comment);
            rest = after;
            continue;
        }
        let Some(c) = rest.chars().next() else { break };
        let (length, style) = if syntax.quotes.contains(c) {
            (string_length(rest, c), theme.string)
        } else if c.is_ascii_digit() {
            (run(rest, |c| c.is_ascii_alphanumeric() || c == '.' || c == '_'), theme.number)
        } else if c.is_alphabetic() || c == '_' {
            let length = run(rest, |c| c.is_alphanumeric() || c == '_');
            let word = rest.get(..length).unwrap_or_default();
            (length, if is_keyword(word, syntax) { theme.keyword } else { theme.code })
        } else {
            let other = |c: char| !c.is_alphanumeric() && c != '_' && !syntax.quotes.contains(c) && !"/#-".contains(c);
            (run(rest, other).max(c.len_utf8()), theme.code)
        };
        let (piece, after) = rest.split_at(length);
        push(piece, style);
        rest = after;
    }
    Line::from(spans)
}

/// Returns whether a word is a keyword. Those of SQL are keywords in either case.
fn is_keyword(word: &str, syntax: &Syntax) -> bool {
    let is_sql = std::ptr::eq(syntax.words, &SQL);
    syntax.words.contains(word) || (is_sql && syntax.words.contains(word.to_ascii_uppercase().as_str()))
}

/// Returns the length in bytes of the leading characters of a kind.
fn run(text: &str, kind: impl Fn(char) -> bool) -> usize {
    text.find(|c| !kind(c)).unwrap_or(text.len())
}

/// Returns the length in bytes of a string with its quotes. An unclosed string extends to the end of the line.
fn string_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    text.len()
}
