//! Sub-agents and commands of Claude Code: Markdown with front matter, whose fields have other names here.

use std::path::Path;

use anyhow::Result;

use super::report::{Report, entries};

/// Tools by their names there and here; nothing where there is none here.
const TOOLS: [(&str, Option<&str>); 12] = [
    ("Bash", Some("execute")),
    ("Read", Some("read_file")),
    ("Write", Some("write_file")),
    ("Edit", Some("edit_file")),
    ("MultiEdit", Some("edit_file")),
    ("Glob", Some("glob")),
    ("Grep", Some("grep")),
    ("LS", Some("ls")),
    ("Task", Some("task")),
    ("TodoWrite", Some("write_todos")),
    ("WebFetch", None),
    ("WebSearch", None),
];

/// Takes sub-agents over.
pub(super) fn import(from: &Path, to: &Path, report: &mut Report) -> Result<()> {
    for (name, path) in entries(from)? {
        if !name.ends_with(".md") {
            continue;
        }
        let Some(bytes) = report.read(&path)? else { continue };
        let (text, dropped) = agent(&String::from_utf8_lossy(&bytes));
        report.write(&path, &to.join(&name), text.as_bytes())?;
        if !dropped.is_empty() {
            report.left(&path, format!("without {}", dropped.join(", ")));
        }
    }
    Ok(())
}

/// Takes commands over, those of directories below too.
pub(super) fn commands(from: &Path, to: &Path, report: &mut Report) -> Result<()> {
    for (name, path) in entries(from)? {
        if path.is_dir() && !path.is_symlink() {
            for (inner, path) in entries(&path)? {
                command(&path, &to.join(&name).join(inner), report)?;
            }
        } else {
            command(&path, &to.join(&name), report)?;
        }
    }
    Ok(())
}

fn command(from: &Path, to: &Path, report: &mut Report) -> Result<()> {
    if from.extension().is_none_or(|ending| ending != "md") {
        return Ok(());
    }
    let Some(bytes) = report.read(from)? else { return Ok(()) };
    report.write(from, to, &bytes)?;
    if String::from_utf8_lossy(&bytes).contains("!`") {
        report.left(from, "commands of the shell in its text (!`…`) are not run; the agent is to run them");
    }
    Ok(())
}

/// A sub-agent's file in the words of here, and what had to be left out.
fn agent(text: &str) -> (String, Vec<String>) {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let Some((head, body)) = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")) else {
        return (text, Vec::new());
    };
    let (mut lines, mut dropped) = (Vec::new(), Vec::new());
    for line in head.lines() {
        let Some((key, value)) = line.split_once(':') else {
            lines.push(line.to_owned());
            continue;
        };
        match key.trim() {
            "tools" if !value.trim().is_empty() => {
                let (known, unknown) = tools(value);
                dropped.extend(unknown.into_iter().map(|tool| format!("the tool {tool}")));
                if !known.is_empty() {
                    lines.push(format!("tools: [{}]", known.join(", ")));
                }
            }
            // The names are those of one provider; the model of the conversation takes their place.
            "model" if !value.contains(':') => dropped.push(format!("model {}", value.trim())),
            "name" | "description" | "model" | "tools" | "skills" => lines.push(line.to_owned()),
            // A line that continues the one before.
            _ if line.starts_with([' ', '\t', '-']) => lines.push(line.to_owned()),
            other => dropped.push(other.to_owned()),
        }
    }
    (format!("---\n{}\n---\n{body}", lines.join("\n")), dropped)
}

fn tools(value: &str) -> (Vec<&'static str>, Vec<String>) {
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    let names = value.trim().trim_start_matches('[').trim_end_matches(']').split(',');
    for name in names.map(|name| name.trim().trim_matches(['"', '\''])).filter(|name| !name.is_empty()) {
        let bare = name.split('(').next().unwrap_or(name);
        match TOOLS.iter().find(|(theirs, _)| *theirs == bare) {
            Some((_, Some(ours))) if !known.contains(ours) => known.push(*ours),
            Some((_, Some(_))) => {}
            _ => unknown.push(name.to_owned()),
        }
    }
    (known, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sub_agent_has_the_tools_of_here_and_what_it_loses_is_told() {
        let given = "---\nname: reviewer\ndescription: Reviews: all\ntools: Read, Grep, Bash(git diff:*), WebFetch\nmodel: opus\ncolor: red\n---\nReview it.\n";
        let (text, dropped) = agent(given);
        assert_eq!(
            text,
            "---\nname: reviewer\ndescription: Reviews: all\ntools: [read_file, grep, execute]\n---\nReview it.\n"
        );
        assert_eq!(dropped, ["the tool WebFetch", "model opus", "color"]);
    }
}
