//! Translating a sub-agent of Claude Code. The result never has more tools than the original.

use deepagents::subagents::SubAgentSpec;
use serde_json::{Map, Value};

use crate::front_matter;

/// Claude Code's tools and their equivalents, if any.
const TOOLS: [(&str, Option<&str>); 13] = [
    ("Bash", Some("execute")),
    ("Read", Some("read_file")),
    ("Write", Some("write_file")),
    ("Edit", Some("edit_file")),
    ("MultiEdit", Some("edit_file")),
    ("Glob", Some("glob")),
    ("Grep", Some("grep")),
    ("LS", Some("ls")),
    // Sub-agents cannot delegate.
    ("Task", None),
    ("Agent", None),
    ("TodoWrite", Some("write_todos")),
    ("WebFetch", None),
    ("WebSearch", None),
];
/// The tools of a sub-agent that is only denied some. `execute` is missing: it does not exist in every run, and a
/// sub-agent that names it is then unavailable too.
const ALL: [&str; 7] = ["ls", "read_file", "glob", "grep", "write_todos", "write_file", "edit_file"];
/// The tools that plan mode denies.
const CHANGES: [&str; 4] = ["Bash", "Write", "Edit", "MultiEdit"];
/// The tool that runs commands.
const EXECUTE: &str = "execute";
/// The remark about a sub-agent that has it.
const NEEDS_EXECUTE: &str = "its Bash becomes `execute`, so `deepagents run` has it only with --execute or --sandbox";
/// Maximum length of a name in characters.
const MAX_NAME_CHARS: usize = 64;

/// A translated sub-agent.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) text: String,
    /// What could not be translated.
    pub(super) lost: Vec<String>,
}

/// Translates a file. The sub-agent's name defaults to the file's. No restriction of a sub-agent is dropped: a file
/// with one that cannot be expressed is an error.
pub(super) fn translate(text: &str, file: &str) -> Result<Definition, String> {
    let text = text.replace("\r\n", "\n");
    let (mut fields, body) = front_matter::read(&text)?;
    fields.retain(|_, value| !value.is_null());
    if fields.contains_key("hooks") {
        return Err("it has hooks, which may restrict it and are not supported here".to_owned());
    }
    let mut lost = Vec::new();
    let description =
        front_matter::line(&fields, "description").ok_or("it has no `description`, which says what it is for")?;
    let given = front_matter::line(&fields, "name").unwrap_or_else(|| file.to_owned());
    let name = Some(slug(&given)).filter(|name| !name.is_empty()).ok_or("its name has no letters")?;
    if name != given {
        lost.push(format!("its name `{given}`, which becomes `{name}` here"));
    }
    let mut lines =
        vec![format!("name: {}", plain(&name)), format!("description: {}", Value::from(description.as_str()))];
    if let Some(only) = tools(&fields, &mut lost)? {
        lines.push(format!("tools: [{}]", only.iter().map(|tool| plain(tool)).collect::<Vec<_>>().join(", ")));
        if only.iter().any(|tool| tool == EXECUTE) {
            lost.push(NEEDS_EXECUTE.to_owned());
        }
    }
    for (key, value) in &fields {
        match (key.as_str(), value.as_str()) {
            ("name" | "description" | "tools" | "disallowedTools", _)
            | ("permissionMode", Some("plan" | "default")) => {}
            // Other names belong to one provider; the conversation's model is used instead.
            ("model", Some(model)) if model == "inherit" || model.contains(':') => {
                lines.push(format!("model: {}", plain(model)));
            }
            ("model", Some(model)) => lost.push(format!("without model {model}")),
            ("maxTurns", Some(most)) => {
                let most: u32 = most.trim().parse().map_err(|_| format!("its `maxTurns` is not a number: {most}"))?;
                lines.push(format!("budget: {{model_calls: {most}}}"));
            }
            (other, _) => lost.push(format!("without {other}")),
        }
    }
    let text = format!("---\n{}\n---\n{body}", lines.join("\n"));
    let read = SubAgentSpec::from_markdown(&text, &name).map_err(|error| error.to_string())?;
    if read.description.chars().count() < description.chars().count() {
        lost.push("the end of its description, which is too long".to_owned());
    }
    Ok(Definition { name, text, lost })
}

/// Converts a name to letters, digits, `-` and `_`, as names must be.
pub(super) fn slug(given: &str) -> String {
    let legal = |c: char| c == '-' || c == '_' || c.is_alphanumeric();
    if !given.is_empty() && given.chars().all(legal) && given.chars().nth(MAX_NAME_CHARS).is_none() {
        return given.to_owned();
    }
    let words = given.split(|c: char| !legal(c)).filter(|word| !word.is_empty()).map(str::to_lowercase);
    words.collect::<Vec<_>>().join("-").chars().take(MAX_NAME_CHARS).collect()
}

/// Formats a YAML scalar that is read as a string, whatever its content.
pub(super) fn plain(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let is_value = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"].contains(&&*text.to_lowercase());
    if is_word && !is_value { text.to_owned() } else { Value::from(text).to_string() }
}

/// Returns the sub-agent's tools; `None` if it has all of them.
fn tools(fields: &Map<String, Value>, lost: &mut Vec<String>) -> Result<Option<Vec<String>>, String> {
    let given = names(fields, "tools")?.filter(|names| !names.iter().any(|name| name == "*"));
    let mut without = names(fields, "disallowedTools")?.unwrap_or_default();
    if front_matter::line(fields, "permissionMode").is_some_and(|mode| mode == "plan") {
        without.extend(CHANGES.map(str::to_owned));
    }
    let mut only: Vec<String> = Vec::new();
    match given {
        Some(names) => {
            for name in names {
                match equivalent_tool(&name) {
                    Some(tool) if only.contains(&tool) => {}
                    Some(tool) => only.push(tool),
                    None => lost.push(format!("without the tool {name}")),
                }
            }
        }
        None if without.is_empty() => return Ok(None),
        None => {
            only.extend(
                ALL.iter().filter(|tool| !without.iter().any(|name| covers(name, tool))).map(|tool| (*tool).to_owned()),
            );
            let tools = only.join(", ");
            lost.push(format!(
                "restricted to {tools}: here a sub-agent lists the tools it may use, not those it may not"
            ));
        }
    }
    for name in without.iter().filter(|name| name.contains('(')) {
        let whole = only.iter().filter(|tool| covers(name, tool));
        lost.extend(whole.map(|tool| format!("without the tool {tool}, since it disallows {name}")));
    }
    only.retain(|tool| !without.iter().any(|name| covers(name, tool)));
    Ok(Some(only))
}

/// Returns the equivalent of a tool. A tool limited to some of its calls has none, as all its calls would be allowed.
fn equivalent_tool(name: &str) -> Option<String> {
    // MCP tools have the same names.
    let of_server = name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
    if of_server.is_some_and(|(_, tool)| !tool.is_empty()) && !name.contains(['*', '(']) {
        return Some(name.to_owned());
    }
    TOOLS.iter().find(|(theirs, _)| *theirs == name)?.1.map(str::to_owned)
}

/// Whether the name of a denied tool, or of denied calls of a tool, covers the equivalent `tool`.
fn covers(name: &str, tool: &str) -> bool {
    let name = name.split('(').next().unwrap_or(name);
    match name.strip_suffix('*') {
        Some(beginning) => tool.starts_with(beginning),
        // The name of a server covers all its tools.
        None if name.starts_with("mcp__") => {
            tool.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("__"))
        }
        None => equivalent_tool(name).is_some_and(|named| named == tool),
    }
}

/// Splits names at commas and spaces outside parentheses, or returns those of a list.
fn names(fields: &Map<String, Value>, key: &str) -> Result<Option<Vec<String>>, String> {
    let odd = || format!("its `{key}` is not a list of names");
    let given = match fields.get(key) {
        None => return Ok(None),
        Some(Value::String(text)) => {
            let text = text.trim();
            text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text).to_owned()
        }
        Some(Value::Array(items)) => {
            let items: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            items.ok_or_else(odd)?.join(",")
        }
        Some(_) => return Err(odd()),
    };
    let mut open = 0_u32;
    let ends = |c: char| {
        match c {
            '(' => open += 1,
            ')' => open = open.saturating_sub(1),
            _ => {}
        }
        open == 0 && (c == ',' || c.is_whitespace())
    };
    let names = given.split(ends).map(|name| name.trim_matches(['"', '\'']));
    Ok(Some(names.filter(|name| !name.is_empty()).map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &str) -> (Vec<String>, Vec<String>) {
        let read = translate(&format!("---\nname: a\ndescription: d\n{fields}\n---\nDo it.\n"), "a").unwrap();
        let lines = read.text.lines().skip(3).take_while(|line| *line != "---").map(str::to_owned);
        (lines.collect(), read.lost)
    }

    #[test]
    fn an_imported_sub_agent_maps_its_tools_and_reports_what_is_dropped() {
        let given = "---\nname: Code Helper\ndescription: Reviews: all\ntools: Read, Grep, Task, Bash(git diff:*), Bash\nmodel: opus\ncolor: red\n---\nReview it.\n";
        let read = translate(given, "x").unwrap();
        let text = "---\nname: code-helper\ndescription: \"Reviews: all\"\ntools: [read_file, grep, execute]\n---\nReview it.\n";
        assert_eq!(read.text, text);
        let lost = [
            "its name `Code Helper`, which becomes `code-helper` here",
            "without the tool Task",
            "without the tool Bash(git diff:*)",
            NEEDS_EXECUTE,
            "without color",
            "without model opus",
        ];
        assert_eq!(read.lost.len(), lost.len());
        assert!(lost.iter().all(|what| read.lost.iter().any(|said| said == what)), "{:?}", read.lost);
    }

    #[test]
    fn importing_a_definition_drops_no_tool_restriction() {
        let line = |fields: &str| head(fields).0;
        for none in ["tools: []", "tools: \"\"", "tools: WebFetch, WebSearch", "tools: Bash(git diff:*)"] {
            assert_eq!(line(none), ["tools: []"], "{none}");
        }
        assert_eq!(line("tools: mcp__t__l"), ["tools: [mcp__t__l]"]);
        assert_eq!(line("tools: mcp__t__l, Read\ndisallowedTools: mcp__t"), ["tools: [read_file]"]);
        assert_eq!(line("tools:\n  - Read\n  - Write\ndisallowedTools: [Write]"), ["tools: [read_file]"]);
        let reads = ["tools: [ls, read_file, glob, grep, write_todos]"];
        assert_eq!(line("disallowedTools: Write, Edit, Bash"), reads);
        assert_eq!(line("disallowedTools: Write(/a), Edit"), reads);
        assert_eq!(line("permissionMode: plan"), reads);
        assert_eq!(line("maxTurns: 7"), ["budget: {model_calls: 7}"]);
        assert_eq!(line("tools: mcp__t__a, mcp__t__b\ndisallowedTools: mcp__t__a*"), ["tools: [mcp__t__b]"]);
        for all in ["tools:", "tools: \"*\"", "color: red"] {
            assert_eq!(line(all), Vec::<String>::new(), "{all}");
        }
        assert_eq!(line("model: inherit"), ["model: inherit"]);
        let why = |text: &str| translate(text, "a").unwrap_err();
        assert!(why("---\ndescription: d\nhooks: {}\n---\n").contains("hooks"));
        assert!(why("---\nname: a\n---\n").contains("no `description`"));
        assert!(why("---\ndescription: d\ntools: {a: b}\n---\n").contains("not a list of names"));
    }
}
