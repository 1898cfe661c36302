//! Syntax highlighting.
//!
//! A lexer that knows strings, comments, numbers and the keywords of common languages. It needs no start-up time and no
//! memory, whereas editor grammars need tens of milliseconds and megabytes.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::theme::Theme;

/// The comment syntax and keywords of a family of languages.
struct Syntax {
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    quotes: &'static str,
    words: &'static [&'static str],
}

const C_LIKE: &[&str] = &[
    "as",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "crate",
    "default",
    "defer",
    "do",
    "else",
    "enum",
    "export",
    "extends",
    "extern",
    "false",
    "final",
    "finally",
    "fn",
    "for",
    "from",
    "func",
    "function",
    "go",
    "if",
    "impl",
    "import",
    "in",
    "interface",
    "let",
    "loop",
    "match",
    "mod",
    "module",
    "move",
    "mut",
    "new",
    "nil",
    "null",
    "package",
    "private",
    "protected",
    "pub",
    "public",
    "ref",
    "return",
    "select",
    "self",
    "static",
    "struct",
    "super",
    "switch",
    "this",
    "throw",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "undefined",
    "union",
    "unsafe",
    "use",
    "using",
    "var",
    "virtual",
    "void",
    "where",
    "while",
    "yield",
    "int",
    "char",
    "bool",
    "string",
    "float",
    "double",
    "long",
    "namespace",
    "template",
    "override",
    "val",
    "when",
    "object",
];
const PYTHON: &[&str] = &[
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except",
    "False", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "match", "case", "None",
    "nonlocal", "not", "or", "pass", "raise", "return", "self", "True", "try", "while", "with", "yield", "end", "do",
    "then", "module", "require", "unless", "nil", "true", "false", "local", "function",
];
const SHELL: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "function", "in",
    "return", "exit", "export", "local", "set", "cd", "echo", "source", "true", "false",
];
const SQL: &[&str] = &[
    "SELECT", "FROM", "WHERE", "INSERT", "INTO", "VALUES", "UPDATE", "SET", "DELETE", "CREATE", "TABLE", "INDEX",
    "DROP", "ALTER", "JOIN", "LEFT", "RIGHT", "INNER", "OUTER", "ON", "AS", "AND", "OR", "NOT", "NULL", "PRIMARY",
    "KEY", "GROUP", "BY", "ORDER", "LIMIT", "DISTINCT", "UNION", "CASE", "WHEN", "THEN", "ELSE", "END", "WITH",
];
const DATA: &[&str] = &["true", "false", "null", "yes", "no"];

fn syntax(language: &str) -> Option<Syntax> {
    let of = |line_comments, block_comment, quotes, words| Some(Syntax { line_comments, block_comment, quotes, words });
    let block = Some(("/*", "*/"));
    match language.to_ascii_lowercase().as_str() {
        "rust" | "rs" => of(&["//"], block, "\"", C_LIKE),
        "c" | "h" | "cpp" | "c++" | "cc" | "hpp" | "java" | "kotlin" | "kt" | "scala" | "swift" | "go" | "js"
        | "jsx" | "ts" | "tsx" | "javascript" | "typescript" | "cs" | "csharp" | "zig" | "dart" | "php" | "proto"
        | "css" | "scss" => of(&["//"], block, "\"'`", C_LIKE),
        "python" | "py" | "ruby" | "rb" | "elixir" | "ex" | "julia" | "jl" | "r" | "nim" => {
            of(&["#"], None, "\"'", PYTHON)
        }
        "lua" => of(&["--"], None, "\"'", PYTHON),
        "sh" | "bash" | "zsh" | "shell" | "console" | "fish" | "dockerfile" | "make" | "makefile" => {
            of(&["#"], None, "\"'", SHELL)
        }
        "sql" => of(&["--"], block, "'\"", SQL),
        "json" | "jsonc" | "json5" => of(&["//"], block, "\"", DATA),
        "yaml" | "yml" | "toml" | "ini" | "conf" | "nix" => of(&["#"], None, "\"'", DATA),
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
        if let (true, Some((_, end))) = (*in_comment, syntax.block_comment) {
            let length = rest.find(end).map(|at| at + end.len());
            *in_comment = length.is_none();
            let (comment, after) = rest.split_at(length.unwrap_or(rest.len()));
            push(comment, theme.comment);
            rest = after;
            continue;
        }
        if syntax.line_comments.iter().any(|mark| rest.starts_with(mark)) {
            push(rest, theme.comment);
            break;
        }
        if syntax.block_comment.is_some_and(|(begin, _)| rest.starts_with(begin)) {
            *in_comment = true;
            let (begin, after) = rest.split_at(2.min(rest.len()));
            push(begin, theme.comment);
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
            let known = syntax.words.iter().any(|known| *known == word || is_sql(syntax, known, word));
            (length, if known { theme.keyword } else { theme.code })
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

fn is_sql(syntax: &Syntax, known: &str, word: &str) -> bool {
    std::ptr::eq(syntax.words, SQL) && known.eq_ignore_ascii_case(word)
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
