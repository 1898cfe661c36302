//! Front matter: YAML between two lines of three dashes at the top of a Markdown file.
//!
//! Scalars keep the text they were written with: `version: 1.10` is `1.10`, not `1.1`.

use std::cell::Cell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de::Error as _};
use serde_json::Value;

/// Characters that front matter, or a whole YAML file, may have.
const MAX_CHARS: usize = 64 * 1024;
/// Values that it may hold once aliases are followed, so that a few lines cannot stand for millions.
const MAX_NODES: usize = 10_000;
const FENCE: &str = "---";
/// Keys whose scalars are texts, whatever they look like.
const TEXTS: [&str; 6] = ["name", "description", "system_prompt", "prompt", "model", "title"];

/// A YAML value with scalars as their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Null,
    Text(String),
    List(Vec<Node>),
    /// In the order of the file, each key once.
    Map(Vec<(String, Node)>),
}

/// Why there is no front matter to be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrontMatterError {
    #[error("it does not begin with a line `---`")]
    Missing,
    #[error("its front matter is not closed by a line `---`")]
    Unclosed,
    #[error("its front matter has more than {MAX_CHARS} characters")]
    TooLong,
    #[error("its front matter is not a mapping of keys to values")]
    NotAMapping,
    #[error("its YAML cannot be read: {0}")]
    Yaml(String),
}

/// The front matter of a file as text, and what follows it. A byte order mark before it is passed over.
pub(crate) fn split(text: &str) -> Result<(&str, &str), FrontMatterError> {
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

/// The front matter of a file, and what follows it.
pub(crate) fn parse(text: &str) -> Result<(Node, &str), FrontMatterError> {
    let (head, body) = split(text)?;
    match yaml(head)? {
        node @ Node::Map(_) => Ok((node, body)),
        _ => Err(FrontMatterError::NotAMapping),
    }
}

/// A YAML document.
pub(crate) fn yaml(text: &str) -> Result<Node, FrontMatterError> {
    if text.chars().nth(MAX_CHARS).is_some() {
        return Err(FrontMatterError::TooLong);
    }
    let failed = |error: serde_yaml_ng::Error| FrontMatterError::Yaml(error.to_string());
    // Twice: only the first pass can tell null from text, only the second sees scalars as they were written.
    let left = Cell::new(MAX_NODES);
    let shape = Measure(&left).deserialize(serde_yaml_ng::Deserializer::from_str(text)).map_err(failed)?;
    Fill(&shape).deserialize(serde_yaml_ng::Deserializer::from_str(text)).map_err(failed)
}

/// A YAML document as JSON: numbers and truth values are such, but what is a text by its key stays as it was written.
pub(crate) fn json(text: &str) -> Result<Value, FrontMatterError> {
    // First, since it refuses what is too large and what is given twice.
    let node = yaml(text)?;
    let value = Value::deserialize(serde_yaml_ng::Deserializer::from_str(text));
    Ok(as_written(&node, value.map_err(|error| FrontMatterError::Yaml(error.to_string()))?))
}

fn as_written(node: &Node, value: Value) -> Value {
    match (node, value) {
        (Node::Map(entries), Value::Object(map)) => {
            let written = |(key, value): (String, Value)| match node.get(&key) {
                Some(Node::Text(text)) if TEXTS.contains(&key.as_str()) => (key, Value::from(text.as_str())),
                Some(inner) => (key, as_written(inner, value)),
                None => (key, value),
            };
            debug_assert_eq!(entries.len(), map.len(), "both read one document");
            Value::Object(map.into_iter().map(written).collect())
        }
        (Node::List(nodes), Value::Array(items)) => {
            Value::Array(nodes.iter().zip(items).map(|(node, item)| as_written(node, item)).collect())
        }
        (_, value) => value,
    }
}

impl Node {
    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match self {
            Self::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text of a scalar without blanks around it; none for an empty one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.trim()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// A list of words: a list of texts, or one text split at blanks and commas. Nothing for any other value.
    pub(crate) fn words(&self) -> Option<Vec<String>> {
        match self {
            Self::Null => Some(Vec::new()),
            Self::Text(text) => {
                let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
                Some(words.map(str::to_owned).collect())
            }
            Self::List(items) => items.iter().map(|item| item.text().map(str::to_owned)).collect(),
            Self::Map(_) => None,
        }
    }
}

/// What kind of value is where.
enum Shape {
    Null,
    Scalar,
    List(Vec<Shape>),
    Map(Vec<Shape>),
}

/// Finds the shape, within a number of values.
struct Measure<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Measure<'_> {
    type Value = Shape;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Shape, D::Error> {
        let left = self.0.get().checked_sub(1).ok_or_else(|| D::Error::custom("it holds too many values"))?;
        self.0.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Measure<'_> {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a list or a mapping")
    }
    fn visit_unit<E: de::Error>(self) -> Result<Shape, E> {
        Ok(Shape::Null)
    }
    fn visit_none<E: de::Error>(self) -> Result<Shape, E> {
        Ok(Shape::Null)
    }
    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_i128<E: de::Error>(self, _: i128) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_u128<E: de::Error>(self, _: u128) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_str<E: de::Error>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element_seed(Measure(self.0))? {
            out.push(item);
        }
        Ok(Shape::List(out))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Shape, A::Error> {
        let mut out = Vec::new();
        while entries.next_key::<String>()?.is_some() {
            out.push(entries.next_value_seed(Measure(self.0))?);
        }
        Ok(Shape::Map(out))
    }
}

/// Reads values whose shape is known.
struct Fill<'a>(&'a Shape);

impl<'de> DeserializeSeed<'de> for Fill<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        match self.0 {
            Shape::Null => de::IgnoredAny::deserialize(deserializer).map(|_| Node::Null),
            Shape::Scalar => String::deserialize(deserializer).map(Node::Text),
            Shape::List(_) => deserializer.deserialize_seq(self),
            Shape::Map(_) => deserializer.deserialize_map(self),
        }
    }
}

impl<'de> Visitor<'de> for Fill<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the same value as before")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let Shape::List(shapes) = self.0 else { return Err(A::Error::custom("a list out of place")) };
        let mut out = Vec::with_capacity(shapes.len());
        for shape in shapes {
            out.extend(items.next_element_seed(Fill(shape))?);
        }
        while items.next_element::<de::IgnoredAny>()?.is_some() {}
        Ok(Node::List(out))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let Shape::Map(shapes) = self.0 else { return Err(A::Error::custom("a mapping out of place")) };
        let mut out: Vec<(String, Node)> = Vec::with_capacity(shapes.len());
        let mut shapes = shapes.iter();
        while let Some(key) = entries.next_key::<String>()? {
            if out.iter().any(|(known, _)| *known == key) {
                return Err(A::Error::custom(format!("`{key}` is given twice")));
            }
            let value = entries.next_value_seed(Fill(shapes.next().unwrap_or(&Shape::Null)))?;
            out.push((key, value));
        }
        Ok(Node::Map(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Node {
        yaml(text).unwrap()
    }

    #[test]
    fn scalars_keep_the_text_they_were_written_with() {
        let node = map("version: 1.10\nzip: 007\nyes: true\nnone: null\nempty:\ntilde: ~\nquoted: 'null'\n");
        let texts: Vec<Option<&str>> =
            ["version", "zip", "yes", "none", "empty", "tilde", "quoted"].iter().map(|k| node.get(k)?.text()).collect();
        assert_eq!(texts, [Some("1.10"), Some("007"), Some("true"), None, None, None, Some("null")]);
    }

    #[test]
    fn lists_mappings_and_aliases_are_read() {
        let node = map("a: &x [one, 2]\nb: *x\nc: {d: {e: f}}\n");
        assert_eq!(node.get("b").and_then(Node::words), Some(vec!["one".into(), "2".into()]));
        assert_eq!(node.get("c").and_then(|c| c.get("d")?.get("e")?.text()), Some("f"));
    }

    #[test]
    fn as_json_numbers_and_truth_values_are_such_but_names_are_texts() {
        let value = json("- name: 007\n  on: {x: true, y: 'true'}\n  n: 1.5\n  none:\n  list: [1, a]\n").unwrap();
        let expected = serde_json::json!([
            {"name": "007", "on": {"x": true, "y": "true"}, "n": 1.5, "none": null, "list": [1, "a"]}
        ]);
        assert_eq!(value, expected);
        assert!(json("a: 1\na: 2\n").unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn a_bomb_of_aliases_is_refused() {
        let list = vec!["x"; 200].join(",");
        let text = format!("a: &a [{list}]\nb: [{}]\n", vec!["*a"; 200].join(","));
        assert!(yaml(&text).unwrap_err().to_string().contains("too many values"));
    }

    #[test]
    fn a_key_given_twice_is_refused() {
        assert!(yaml("a: 1\na: 2\n").unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn front_matter_may_follow_a_byte_order_mark_have_crlf_and_end_the_file() {
        for text in ["---\na: b\n---\nbody", "\u{feff}---\na: b\n---\nbody", "---\r\na: b\r\n---\r\nbody"] {
            let (node, body) = parse(text).unwrap();
            assert_eq!(node.get("a").and_then(Node::text), Some("b"), "{text:?}");
            assert_eq!(body, "body");
        }
        assert_eq!(parse("---\na: b\n---").unwrap().1, "");
    }

    #[test]
    fn what_is_no_front_matter_says_why() {
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
        fn no_text_makes_the_parser_panic(text in "(---\n)?[-:&*\\[\\]{}#|>'\"a \n!%~\\\\]{0,60}(\n---)?\\PC{0,20}") {
            let _ = parse(&text);
            let _ = yaml(&text);
            let _ = json(&text);
        }

        #[test]
        fn head_and_body_are_parts_of_the_file(head in "[a-z: \n]{0,40}", body in "\\PC{0,40}") {
            proptest::prop_assume!(!head.lines().any(|l| l.trim_end() == "---"));
            let text = format!("---\n{head}\n---\n{body}");
            let (found, rest) = split(&text).unwrap();
            proptest::prop_assert_eq!(found.trim_end_matches('\n'), head.trim_end_matches('\n'));
            proptest::prop_assert_eq!(rest, body);
        }
    }
}
