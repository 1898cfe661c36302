//! Front matter of files written for Claude Code. It may be invalid YAML, as descriptions contain what YAML requires to
//! be quoted.

use deepagents::front_matter::{parse, split};
use serde_json::{Map, Value};

/// The fields of a sub-agent or a command there.
const FIELDS: [&str; 18] = [
    "allowed-tools",
    "argument-hint",
    "name",
    "description",
    "tools",
    "disallowedTools",
    "model",
    "permissionMode",
    "maxTurns",
    "skills",
    "mcpServers",
    "hooks",
    "memory",
    "background",
    "effort",
    "isolation",
    "color",
    "initialPrompt",
];

/// Returns the fields of a file, which may have none, and the text after them. Front matter that cannot be parsed
/// counts as empty.
pub(crate) fn read_if_any(text: &str) -> (Map<String, Value>, &str) {
    match split(text) {
        Ok((_, body)) => (read(text).map(|(fields, _)| fields).unwrap_or_default(), body),
        Err(_) => (Map::new(), text),
    }
}

/// Returns a field on one line; a list in brackets.
pub(crate) fn line(fields: &Map<String, Value>, key: &str) -> Option<String> {
    let text = match fields.get(key)? {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Value::Array(items) => {
            format!("[{}]", items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
        }
        _ => return None,
    };
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the fields of a file and the text after them.
pub(crate) fn read(text: &str) -> Result<(Map<String, Value>, &str), String> {
    let (head, body) = split(text).map_err(|error| error.to_string())?;
    let fields = parse(text).map_or_else(|_| lines(head), |(fields, _)| Ok(fields))?;
    Ok((fields, body))
}

/// Parses fields as `name: value` lines, each with its continuation lines. Within a description only a known field name
/// begins another field, because the description may contain lines such as `user: …`.
fn lines(head: &str) -> Result<Map<String, Value>, String> {
    let mut fields: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in head.lines() {
        let is_name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        let field = line.split_once(':').filter(|(name, _)| is_name(name));
        let in_prose = fields.last().is_some_and(|(name, _)| *name == "description");
        match (field, fields.last_mut()) {
            (Some((name, value)), _) if !in_prose || FIELDS.contains(&name) => fields.push((name, vec![value])),
            (_, Some((_, more))) => more.push(line),
            (_, None) if line.trim().is_empty() || line.starts_with('#') => {}
            (_, None) => return Err("its front matter cannot be parsed".to_owned()),
        }
    }
    let mut map = Map::new();
    for (name, lines) in fields {
        if map.insert(name.to_owned(), value(&lines)).is_some() {
            // It is unknown which of the two Claude Code uses, and one may allow more than the other.
            return Err(format!("its front matter has `{name}` twice"));
        }
    }
    Ok(map)
}

fn value(lines: &[&str]) -> Value {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    let items: Option<Vec<Value>> = lines.iter().map(|line| Some(unquoted(line.strip_prefix("- ")?).into())).collect();
    match (lines.as_slice(), items) {
        ([], _) => Value::Null,
        (_, Some(items)) => Value::Array(items),
        ([one], _) if one.starts_with('[') && one.ends_with(']') => {
            let items = one.trim_start_matches('[').trim_end_matches(']').split(',').map(unquoted);
            items.filter(|item| !item.is_empty()).collect()
        }
        (["|" | "|-" | ">" | ">-", rest @ ..], _) => rest.join(" ").into(),
        // Claude Code itself writes line breaks as `\n`.
        (all, _) => unquoted(&all.join(" ")).replace("\\n", " ").into(),
    }
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_yaml_is_read_line_by_line() {
        let given = "---\nname: critic\ndescription: Use it so. Examples: <example>Context: User asks.\\nuser: \"Go\"\nassistant: goes\ntools: Read, Grep\n---\nBe strict.";
        let (fields, body) = read(given).unwrap();
        assert_eq!((&fields["name"], &fields["tools"], body), (&json!("critic"), &json!("Read, Grep"), "Be strict."));
        let said = "Use it so. Examples: <example>Context: User asks. user: \"Go\" assistant: goes";
        assert_eq!(fields["description"], said);
        let (fields, _) = read("---\ndescription: a: b\ntools:\n  - Read\n  - \"Grep\"\ncolor:\n--- \n").unwrap();
        assert_eq!((&fields["tools"], &fields["color"]), (&json!(["Read", "Grep"]), &Value::Null));
        let (fields, _) = read("---\ndescription: a: b\ntools: []\n---").unwrap();
        assert_eq!(fields["tools"], json!([]));
        assert!(read("---\ntools: Read\ndescription: a: b\ntools: Bash\n---\n").unwrap_err().contains("twice"));
        assert!(read("Be strict.").unwrap_err().contains("does not begin"));
    }
}
