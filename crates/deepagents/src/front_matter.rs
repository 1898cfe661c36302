//! Front matter: YAML between two `---` lines at the top of a Markdown file.
//!
//! Values become JSON values. Scalars read as strings keep their source text: `version: 1.10` is `1.10`, not `1.1`.

use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Maximum number of characters of front matter or of a whole YAML file.
const MAX_CHARS: usize = 64 * 1024;
/// Maximum number of values after alias expansion, so that a few lines cannot expand to millions of values.
const MAX_NODES: usize = 10_000;
const FENCE: &str = "---";
/// Keys whose scalars are always strings.
const TEXTS: [&str; 6] = ["name", "description", "system_prompt", "prompt", "model", "title"];

/// Keys whose values are prose, which authors often leave without the quotes that YAML requires.
const PROSE: [&str; 2] = ["description", "compatibility"];

/// Selects the scalars that are read as strings regardless of their form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    /// All scalars.
    All,
    /// Only those of known keys such as names and descriptions; others may be numbers and booleans.
    ByKey,
}

/// An error from reading front matter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrontMatterError {
    /// The file has no front matter.
    #[error("it does not begin with a line `---`")]
    Missing,
    /// The closing `---` line is missing.
    #[error("its front matter is not closed by a line `---`")]
    Unclosed,
    /// The front matter is too long.
    #[error("its front matter has more than {MAX_CHARS} characters")]
    TooLong,
    /// The YAML is not a mapping.
    #[error("its front matter is not a mapping of keys to values")]
    NotAMapping,
    /// The YAML is invalid.
    #[error("its YAML cannot be read: {0}")]
    Yaml(String),
}

/// Splits a file into the text of its front matter and the rest. Ignores a leading byte order mark.
///
/// # Errors
/// Returns an error if the front matter is missing or not closed.
pub fn split(text: &str) -> Result<(&str, &str), FrontMatterError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == FENCE) else {
        return Err(FrontMatterError::Missing);
    };
    let start = first.len();
    let mut end = start;
    for line in lines {
        let next = end + line.len();
        if line.trim_end() == FENCE {
            return Ok((text.get(start..end).unwrap_or_default(), text.get(next..).unwrap_or_default()));
        }
        if next - start > MAX_CHARS * 4 {
            return Err(FrontMatterError::TooLong);
        }
        end = next;
    }
    Err(FrontMatterError::Unclosed)
}

/// Parses the front matter of a file, with all scalars as strings. Also returns the rest of the file.
///
/// ```
/// use deepagents::front_matter::parse;
/// let (head, body) = parse("---\nname: tidy\nversion: 1.10\n---\nTidy up.\n")?;
/// assert_eq!((head["version"].as_str(), body), (Some("1.10"), "Tidy up.\n"));
/// # Ok::<(), deepagents::front_matter::FrontMatterError>(())
/// ```
///
/// # Errors
/// Returns an error if the front matter is missing, not closed, too long, not valid YAML or not a mapping.
pub fn parse(text: &str) -> Result<(Map<String, Value>, &str), FrontMatterError> {
    let (head, body) = split(text)?;
    match yaml(head, Texts::All)? {
        Value::Object(map) => Ok((map, body)),
        _ => Err(FrontMatterError::NotAMapping),
    }
}

/// Parses the front matter of a file and returns it with the rest of the file. If it is not valid YAML, reads prose as
/// if it were quoted: many files contain `description: Use it when: …`, which other programs accept.
pub(crate) fn parse_lenient(text: &str, texts: Texts) -> Result<(Value, &str), FrontMatterError> {
    let (head, body) = split(text)?;
    let value = yaml(head, texts).or_else(|error| match quoted(head) {
        quoted if quoted == head => Err(error),
        quoted => yaml(&quoted, texts).map_err(|_| error),
    })?;
    if value.is_object() { Ok((value, body)) } else { Err(FrontMatterError::NotAMapping) }
}

/// Puts quotes around unquoted prose, including its continuation lines.
fn quoted(head: &str) -> String {
    let mut out = String::with_capacity(head.len() + 8);
    let mut lines = head.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let field = line.split_once(':').filter(|(key, _)| PROSE.contains(key));
        let plain = field.map(|(key, value)| (key, value.trim())).filter(|(_, value)| is_plain(value));
        let Some((key, value)) = plain else {
            out.push_str(line);
            continue;
        };
        let mut value = value.to_owned();
        while let Some(more) = lines.next_if(|more| more.starts_with([' ', '\t'])) {
            value.push(' ');
            value.push_str(more.trim());
        }
        out.push_str(&format!("{key}: '{}'\n", value.replace('\'', "''")));
    }
    out
}

/// Returns `true` if a value is neither quoted, nor in brackets, nor a block.
fn is_plain(value: &str) -> bool {
    !value.is_empty() && !value.starts_with(['\'', '"', '|', '>', '[', '{'])
}

/// Parses a YAML document.
pub(crate) fn yaml(text: &str, texts: Texts) -> Result<Value, FrontMatterError> {
    if text.chars().nth(MAX_CHARS).is_some() {
        return Err(FrontMatterError::TooLong);
    }
    let failed = |error: serde_yaml_ng::Error| FrontMatterError::Yaml(error.to_string());
    // Two passes: only the first can distinguish the kinds of scalars, only the second sees their source text.
    let left = Cell::new(MAX_NODES);
    let value = Kinds(&left).deserialize(serde_yaml_ng::Deserializer::from_str(text)).map_err(failed)?;
    let written = Written { value, texts, is_text: texts == Texts::All };
    written.deserialize(serde_yaml_ng::Deserializer::from_str(text)).map_err(failed)
}

/// Returns the trimmed string of a scalar, or `None` if it is empty or not a string.
pub(crate) fn text(value: &Value) -> Option<&str> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty())
}

/// Returns a list of words, given as a list of strings or as one string separated by whitespace and commas. Returns
/// `None` for any other value.
pub(crate) fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => items.iter().map(|item| text(item).map(str::to_owned)).collect(),
        value => {
            let words = value.as_str()?.split(|c: char| c.is_whitespace() || c == ',');
            Some(words.filter(|word| !word.is_empty()).map(str::to_owned).collect())
        }
    }
}

/// Deserializes typed values, up to a maximum number of them.
struct Kinds<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Kinds<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.0.get().checked_sub(1).ok_or_else(|| D::Error::custom("it holds too many values"))?;
        self.0.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Kinds<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a list or a mapping")
    }
    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Value, E> {
        Ok(value.to_string().into())
    }
    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Value, E> {
        Ok(value.to_string().into())
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        // JSON cannot represent values such as `.nan`; they stay strings.
        Ok(serde_json::Number::from_f64(value).map_or_else(|| value.to_string().into(), Value::Number))
    }
    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element_seed(Kinds(self.0))? {
            out.push(item);
        }
        Ok(Value::Array(out))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if out.contains_key(&key) {
                return Err(A::Error::custom(format!("`{key}` is given twice")));
            }
            out.insert(key, entries.next_value_seed(Kinds(self.0))?);
        }
        Ok(Value::Object(out))
    }
}

/// Deserializes a known value a second time, with strings as in the source.
struct Written {
    value: Value,
    texts: Texts,
    is_text: bool,
}

impl<'de> DeserializeSeed<'de> for Written {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.value {
            Value::Array(_) => deserializer.deserialize_seq(self),
            Value::Object(_) => deserializer.deserialize_map(self),
            Value::Null => de::IgnoredAny::deserialize(deserializer).map(|_| Value::Null),
            _ if self.is_text => String::deserialize(deserializer).map(Value::String),
            value => de::IgnoredAny::deserialize(deserializer).map(|_| value),
        }
    }
}

impl<'de> Visitor<'de> for Written {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the same value as before")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let Value::Array(values) = self.value else { return Err(A::Error::custom("a list where none is expected")) };
        let mut out = Vec::with_capacity(values.len());
        for value in values {
            let seed = Written { value, texts: self.texts, is_text: self.texts == Texts::All };
            out.extend(items.next_element_seed(seed)?);
        }
        while items.next_element::<de::IgnoredAny>()?.is_some() {}
        Ok(Value::Array(out))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let Value::Object(mut map) = self.value else {
            return Err(A::Error::custom("a mapping where none is expected"));
        };
        while let Some(key) = entries.next_key::<String>()? {
            let Some(slot) = map.get_mut(&key) else { continue };
            let is_text = self.texts == Texts::All || TEXTS.contains(&key.as_str());
            *slot = entries.next_value_seed(Written { value: slot.take(), texts: self.texts, is_text })?;
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Value {
        yaml(text, Texts::All).unwrap()
    }

    #[test]
    fn scalars_keep_their_source_text() {
        let node = map("version: 1.10\nzip: 007\nyes: true\nnone: null\nempty:\ntilde: ~\nquoted: 'null'\n");
        let texts: Vec<Option<&str>> =
            ["version", "zip", "yes", "none", "empty", "tilde", "quoted"].iter().map(|k| text(node.get(k)?)).collect();
        assert_eq!(texts, [Some("1.10"), Some("007"), Some("true"), None, None, None, Some("null")]);
    }

    #[test]
    fn lists_mappings_and_aliases_are_read() {
        let node = map("a: &x [one, 2]\nb: *x\nc: {d: {e: f}}\n");
        assert_eq!(node.get("b").and_then(words), Some(vec!["one".into(), "2".into()]));
        assert_eq!(node.pointer("/c/d/e").and_then(text), Some("f"));
    }

    #[test]
    fn as_json_numbers_and_booleans_are_typed_but_names_are_strings() {
        let value =
            yaml("- name: 007\n  on: {x: true, y: 'true'}\n  n: 1.5\n  none:\n  list: [1, a]\n", Texts::ByKey).unwrap();
        let expected = serde_json::json!([
            {"name": "007", "on": {"x": true, "y": "true"}, "n": 1.5, "none": null, "list": [1, "a"]}
        ]);
        assert_eq!(value, expected);
        assert!(yaml("a: 1\na: 2\n", Texts::ByKey).unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn an_alias_bomb_is_rejected() {
        let list = vec!["x"; 200].join(",");
        let text = format!("a: &a [{list}]\nb: [{}]\n", vec!["*a"; 200].join(","));
        assert!(yaml(&text, Texts::All).unwrap_err().to_string().contains("too many values"));
    }

    #[test]
    fn unquoted_prose_is_accepted_and_no_other_yaml_is_repaired() {
        let read = |head: &str| parse_lenient(&format!("---\n{head}---\nbody"), Texts::All).map(|(value, _)| value);
        let text = |head: &str, key: &str| read(head).unwrap().get(key).and_then(super::text).map(str::to_owned);
        let said = "description: Use it so: it's for \"a: b\" # and c: d\nname: x\n";
        assert_eq!(text(said, "description").unwrap(), "Use it so: it's for \"a: b\" # and c: d");
        assert_eq!(text(said, "name").unwrap(), "x");
        let lines = "description: @me: now,\r\n  then: later\r\nname: x\r\n";
        assert_eq!(text(lines, "description").unwrap(), "@me: now, then: later");
        // Valid YAML is read unchanged.
        assert_eq!(text("description: one # two\n", "description").unwrap(), "one");
        for wrong in
            ["tools: a: b\n", "description: a: b\ntools: [\n", "description: 'a': b\n", "- description: a: b\n"]
        {
            assert!(matches!(read(wrong), Err(FrontMatterError::Yaml(_))), "{wrong}");
        }
    }

    #[test]
    fn a_duplicate_key_is_rejected() {
        assert!(yaml("a: 1\na: 2\n", Texts::All).unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn front_matter_may_have_a_byte_order_mark_crlf_or_no_body() {
        for text in ["---\na: b\n---\nbody", "\u{feff}---\na: b\n---\nbody", "---\r\na: b\r\n---\r\nbody"] {
            let (node, body) = parse(text).unwrap();
            assert_eq!(node.get("a").and_then(super::text), Some("b"), "{text:?}");
            assert_eq!(body, "body");
        }
        assert_eq!(parse("---\na: b\n---").unwrap().1, "");
    }

    #[test]
    fn missing_or_invalid_front_matter_is_a_specific_error() {
        let why = |text: &str| parse(text).unwrap_err();
        assert_eq!(why("\n---\na: b\n---\n"), FrontMatterError::Missing);
        assert_eq!(why("text"), FrontMatterError::Missing);
        assert_eq!(why("---\na: b\n"), FrontMatterError::Unclosed);
        assert_eq!(why("---\n- a\n---\n"), FrontMatterError::NotAMapping);
        assert_eq!(why("---\n---\n"), FrontMatterError::NotAMapping);
        assert_eq!(why(&format!("---\na: {}\n---\n", "x".repeat(MAX_CHARS))), FrontMatterError::TooLong);
        assert!(matches!(why("---\na: b: c\n---\n"), FrontMatterError::Yaml(_)));
    }

    proptest::proptest! {
        #[test]
        fn no_input_makes_the_front_matter_parser_panic(text in "(---\n)?[-:&*\\[\\]{}#|>'\"a \n!%~\\\\]{0,60}(\n---)?\\PC{0,20}") {
            let _ = parse(&text);
            let _ = yaml(&text, Texts::All);
            let _ = yaml(&text, Texts::ByKey);
        }

        #[test]
        fn splitting_returns_the_original_head_and_body(head in "[a-z: \n]{0,40}", body in "\\PC{0,40}") {
            proptest::prop_assume!(!head.lines().any(|l| l.trim_end() == "---"));
            let text = format!("---\n{head}\n---\n{body}");
            let (found, rest) = split(&text).unwrap();
            proptest::prop_assert_eq!(found.trim_end_matches('\n'), head.trim_end_matches('\n'));
            proptest::prop_assert_eq!(rest, body);
        }
    }
}
