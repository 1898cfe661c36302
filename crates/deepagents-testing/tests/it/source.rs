//! A tokenizer for Rust sources, without comments and literals.

use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All `.rs` files below a directory, sorted.
pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A word (a name, keyword or number) or a single punctuation mark; `::` is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

/// The module path of a source file from the crate root. `mod.rs` is the module of its directory.
pub(crate) fn module(inside: &Path) -> Vec<String> {
    let file = inside.with_extension("");
    let mut names: Vec<String> = file.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    names.pop_if(|name| matches!(name.as_str(), "mod" | "lib" | "main"));
    names
}

/// The paths into the own crate that a module's source names, from the crate root, each with its line. They start with
/// `crate` or `super`; each branch of `{…}` is listed separately.
pub(crate) fn paths(source: &str, module: &[String]) -> Vec<(Vec<String>, usize)> {
    let tokens = tokens(source);
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let mut found = Vec::new();
    for at in (0..tokens.len()).filter(|at| *at == 0 || text(at - 1) != "::") {
        let climbs = (0..).take_while(|step| text(at + step * 2) == "super" && text(at + step * 2 + 1) == "::").count();
        if text(at) == "crate" && text(at + 1) == "::" {
            branch(&tokens, at + 2, Vec::new(), &mut found);
        } else if climbs > 0 {
            let above = module.len().saturating_sub(climbs);
            branch(&tokens, at + climbs * 2, module[..above].to_vec(), &mut found);
        }
    }
    found
}

/// Reads a branch of a path. Returns the position after it.
fn branch(tokens: &[Token<'_>], mut at: usize, mut path: Vec<String>, found: &mut Vec<(Vec<String>, usize)>) -> usize {
    while let Some(token) = tokens.get(at) {
        at += 1;
        if token.text == "{" {
            while tokens.get(at).is_some_and(|token| token.text != "}") {
                at = branch(tokens, at, path.clone(), found);
                // Skips up to a comma, such as a renaming `as`.
                while tokens.get(at).is_some_and(|token| !matches!(token.text, "," | "}")) {
                    at += 1;
                }
                at += usize::from(tokens.get(at).is_some_and(|token| token.text == ","));
            }
            return at + 1;
        }
        path.push(token.text.to_owned());
        if tokens.get(at).is_none_or(|next| next.text != "::") {
            found.push((path, token.line));
            return at;
        }
        at += 1;
    }
    at
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The tokens of a source, without those of test modules.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let all = with_tests(source);
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < all.len() {
        let text = |from: usize, count: usize| all[at..].iter().skip(from).take(count).map(|token| token.text);
        if text(0, 8).eq(["#", "[", "cfg", "(", "test", ")", "]", "mod"]) {
            // Skips the name and the braces. A semicolon means that the module is in its own file.
            at += 9;
            let mut depth = 0_usize;
            while let Some(token) = all.get(at) {
                depth = match token.text {
                    "{" => depth + 1,
                    "}" => depth - 1,
                    _ => depth,
                };
                at += 1;
                if depth == 0 {
                    break;
                }
            }
        } else {
            kept.push(all[at]);
            at += 1;
        }
    }
    kept
}

fn with_tests(source: &str) -> Vec<Token<'_>> {
    let bytes = source.as_bytes();
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while let Some(&byte) = bytes.get(at) {
        let rest = &source[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if byte == b'"' {
            text(rest)
        } else if let Some(length) = raw_text(rest) {
            length
        } else if byte == b'\'' {
            letter(rest)
        } else {
            let words = rest.bytes().take_while(|byte| is_word(*byte)).count();
            let length = if words > 0 { words } else { 1 + usize::from(rest.starts_with("::")) };
            if !byte.is_ascii_whitespace() {
                tokens.push(Token { text: &rest[..length], line });
            }
            length
        };
        line += rest[..length].matches('\n').count();
        at += length;
    }
    tokens
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn text(rest: &str) -> usize {
    let mut bytes = rest.bytes().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a raw string such as `r"…"` or `br#"…"#`, or `None`.
fn raw_text(rest: &str) -> Option<usize> {
    let start = rest.strip_prefix("br").or_else(|| rest.strip_prefix("cr")).or_else(|| rest.strip_prefix('r'))?;
    let hashes = start.bytes().take_while(|byte| *byte == b'#').count();
    let body = start[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(rest.len() - body.len() + body.find(&end).map_or(body.len(), |at| at + end.len()))
}

/// The length of a character literal, or of the quote that starts a lifetime.
fn letter(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => rest[2..].char_indices().skip(1).find(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 3),
        Some((at, c)) if rest[at + c.len_utf8()..].starts_with('\'') => at + c.len_utf8() + 1,
        _ => 1,
    }
}

#[test]
fn tokens_are_found_outside_comments_strings_and_tests() {
    let source = r##"
// crate::a
/* crate::b /* c */ crate::d */
use crate::{e, f::g}; /// crate::h
fn x<'a>(y: &'a str) -> char { let z = "crate::i \" crate::j"; let q = '"'; let b = '\''; r#"crate::k"#; '\u{7f}' }
#[cfg(test)]
mod tests { use crate::l; fn m() { {} } }
n
"##;
    let found: Vec<(&str, usize)> = tokens(source).iter().map(|token| (token.text, token.line)).collect();
    let text = found.iter().map(|(text, _)| *text).collect::<Vec<_>>().join(" ");
    let expected = "use crate :: { e , f :: g } ; fn x < a > ( y : & a str ) - > char \
                    { let z = ; let q = ; let b = ; ; } n";
    assert_eq!(text, expected);
    assert_eq!((found[0], found.last().unwrap()), (("use", 4), &("n", 8)));
}

#[test]
fn every_kind_of_use_path_is_read() {
    let read = |source: &str, module: &[&str]| {
        let module: Vec<String> = module.iter().map(|name| (*name).to_owned()).collect();
        let found = paths(source, &module);
        found.iter().map(|(path, line)| format!("{line} {}", path.join("::"))).collect::<Vec<_>>()
    };
    assert_eq!(read("use crate::run::{self, Run as R};", &["a"]), ["1 run::self", "1 run::Run"]);
    assert_eq!(
        read("use crate::{\n  agent::Agent,\n  run::{self, x::{Y, Z}},\n  tool::*,\n};\ncrate::b", &["a"]),
        ["2 agent::Agent", "3 run::self", "3 run::x::Y", "3 run::x::Z", "4 tool::*", "6 b"]
    );
    assert_eq!(
        read("fn f() -> crate::s::T { o::crate_::x(); $crate::e::F::<u8>::g() }", &["a"]),
        ["1 s::T", "1 e::F::<"]
    );
    assert_eq!(
        read("use super::{c, d::E}; use super::super::run::Run;", &["a", "b"]),
        ["1 a::c", "1 a::d::E", "1 run::Run"]
    );
    assert_eq!(read("pub(in crate::run) fn f() {} // crate::agent", &["a"]), ["1 run"]);
    assert_eq!(module(Path::new("run/mod.rs")), ["run"]);
    assert_eq!(module(Path::new("run/tools.rs")), ["run", "tools"]);
    assert_eq!(module(Path::new("lib.rs")), [""; 0]);
}
