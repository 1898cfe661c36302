//! Reads sub-agent definitions in YAML as people write them.

use serde_json::Value;

use super::SubAgentSpec;
use crate::text::{one_line, shorten};

/// Maximum length of a name in characters.
pub(crate) const MAX_NAME: usize = 64;
/// Maximum length of a description in characters; longer ones are truncated.
const MAX_DESCRIPTION: usize = 1024;

/// An error that says why a text does not define a sub-agent.
///
/// ```
/// use deepagents::subagents::SubAgentSpec;
/// let error = SubAgentSpec::from_markdown("You review.", "reviewer").unwrap_err();
/// assert_eq!(error.to_string(), "it does not begin with a line `---`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DefinitionError(pub(super) String);

/// Parses a definition and returns it with a warning, if any. `name` is the default for its name.
pub(crate) fn read(given: Value, name: Option<&str>) -> Result<(SubAgentSpec, Option<String>), String> {
    let Value::Object(mut map) = given else { return Err("it is not a mapping".to_owned()) };
    // A key without a value counts as absent.
    map.retain(|_, value| !value.is_null());
    for key in ["name", "description"] {
        if let Some(Value::String(text)) = map.get_mut(key) {
            *text = one_line(text);
        }
        if map.get(key).and_then(Value::as_str) == Some("") {
            map.remove(key);
        }
    }
    if let (None, Some(name)) = (map.get("name"), name) {
        map.insert("name".to_owned(), name.into());
    }
    if let Some(missing) = ["name", "description"].into_iter().find(|key| !map.contains_key(*key)) {
        return Err(format!("it has no `{missing}`"));
    }
    let mut spec: SubAgentSpec =
        serde_path_to_error::deserialize(Value::Object(map)).map_err(|error| located_message(&error))?;
    check_name(&spec.name)?;
    check_below(&spec)?;
    let short = shorten(&spec.description, MAX_DESCRIPTION);
    let odd = (short.len() < spec.description.len())
        .then(|| format!("`description` is longer than {MAX_DESCRIPTION} characters and was cut"));
    spec.description = short;
    Ok((spec, odd))
}

/// Formats an error with its location, unless the message already contains it.
fn located_message(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let (place, why) = (error.path().to_string(), error.inner().to_string());
    if place == "." || why.contains(&format!("`{place}`")) { why } else { format!("{place}: {why}") }
}

/// Maximum number of nested sub-agents in one definition, at all depths.
const MAX_BELOW: usize = 100;

/// Rejects invalid names and an excessive number of nested sub-agents, at every depth.
fn check_below(spec: &SubAgentSpec) -> Result<(), String> {
    let mut open: Vec<&SubAgentSpec> = spec.sub_agents.iter().collect();
    let mut seen = 0;
    while let Some(below) = open.pop() {
        seen += 1;
        if seen > MAX_BELOW {
            return Err(format!("it describes more than {MAX_BELOW} sub-agents of its own"));
        }
        check_name(&below.name).map_err(|why| format!("its sub-agents: {why}"))?;
        open.extend(&below.sub_agents);
    }
    Ok(())
}

/// Rejects a name with characters other than letters and digits of any script, `-` and `_`, so that a model can write
/// it without quotes.
fn check_name(name: &str) -> Result<(), String> {
    let legal = |c: char| c == '-' || c == '_' || c.is_alphanumeric();
    if name.chars().nth(MAX_NAME).is_some() {
        Err(format!("the name `{}` is longer than {MAX_NAME} characters", shorten(name, MAX_NAME)))
    } else if !name.chars().all(legal) {
        Err(format!("the name `{name}` holds other characters than letters, digits, `-` and `_`"))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn why(given: Value) -> String {
        read(given, None).unwrap_err()
    }

    #[test]
    fn an_error_in_a_definition_names_its_place() {
        assert_eq!(why(json!("text")), "it is not a mapping");
        assert_eq!(why(json!({"description": "d"})), "it has no `name`");
        assert_eq!(why(json!({"name": "x", "description": " \n"})), "it has no `description`");
        assert!(why(json!({"name": "a b", "description": "d"})).contains("other characters"));
        assert!(why(json!({"name": "x".repeat(65), "description": "d"})).contains("longer than 64"));
        let with = |key: &str, value: Value| {
            let mut map = json!({"name": "x", "description": "d"});
            map[key] = value;
            why(map)
        };
        assert!(with("colour", json!("red")).contains("unknown field `colour`, expected one of `name`"));
        assert!(with("permissions", json!([{"operations": ["fly"]}])).contains("permissions[0].operations[0]"));
        assert!(with("mode", json!("clone")).contains("mode: unknown variant `clone`"));
        assert!(with("model", json!({"temprature": 1})).contains("unknown field `temprature`"));
        assert!(with("model", json!({"api_key": "k"})).contains("`api_key` belongs to the registry"));
        assert!(with("interrupt_on", json!({"x": "yes"})).contains("interrupt_on.x: write true, false"));
        assert!(with("tools", json!({"a": 1})).contains("a list of names"));
    }

    #[test]
    fn names_have_a_default_descriptions_are_cut_and_null_keys_ignored() {
        let given = json!({"description": "d ".repeat(600), "model": null, "tools": "ls, grep"});
        let (spec, odd) = read(given, Some("given")).unwrap();
        assert_eq!((spec.name.as_str(), spec.model), ("given", None));
        assert_eq!(spec.description.chars().count(), 1024);
        assert_eq!(spec.tool_names.unwrap(), ["ls", "grep"]);
        assert!(odd.unwrap().contains("longer than 1024"));
    }
}
