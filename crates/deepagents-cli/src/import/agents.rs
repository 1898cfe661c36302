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
    // Sub-agents hand nothing on.
    ("Task", None),
    ("TodoWrite", Some("write_todos")),
    ("WebFetch", None),
    ("WebSearch", None),
];

/// How deep directories are looked into.
const DEPTH: usize = 8;

/// Takes sub-agents over, those of directories below too: what they are called does not depend on where they lie.
pub(super) fn import(from: &Path, to: &Path, report: &mut Report) -> Result<()> {
    below(from, DEPTH, report, &mut |path, name, report| {
        let Some(bytes) = report.read(path)? else { return Ok(()) };
        let Some((text, dropped)) = agent(&String::from_utf8_lossy(&bytes)) else {
            report.left(path, "it has no front matter, which names and describes a sub-agent");
            return Ok(());
        };
        report.write(path, &to.join(name), text.as_bytes())?;
        if !dropped.is_empty() {
            report.left(path, format!("without {}", dropped.join(", ")));
        }
        Ok(())
    })
}

/// The Markdown files of a directory and those below it.
fn below(
    from: &Path,
    depth: usize,
    report: &mut Report,
    each: &mut dyn FnMut(&Path, &str, &mut Report) -> Result<()>,
) -> Result<()> {
    for (name, path) in entries(from)? {
        if path.is_dir() && !path.is_symlink() {
            match depth {
                0 => report.left(&path, "it lies too deep"),
                _ => below(&path, depth - 1, report, each)?,
            }
        } else if name.ends_with(".md") {
            each(&path, &name, report)?;
        }
    }
    Ok(())
}

/// Takes commands over, those of directories below too.
pub(super) fn commands(from: &Path, to: &Path, report: &mut Report) -> Result<()> {
    for (name, path) in entries(from)? {
        if path.is_dir() && !path.is_symlink() {
            for (inner, path) in entries(&path)? {
                if path.is_dir() && !path.is_symlink() {
                    report.left(&path, "commands are looked for in one directory below, and no deeper");
                } else {
                    command(&path, &to.join(&name).join(inner), report)?;
                }
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
    let text = String::from_utf8_lossy(&bytes);
    if text.contains("!`") {
        report.left(from, "commands of the shell in its text (!`…`) are not run; the agent is to run them");
    }
    let head = text.strip_prefix("---").and_then(|rest| rest.split_once("\n---")).map_or("", |(head, _)| head);
    let keys = head.lines().filter_map(|line| Some(line.split_once(':')?.0));
    let without: Vec<&str> = keys.filter(|key| ["allowed-tools", "model"].contains(key)).collect();
    if !without.is_empty() {
        report.left(from, format!("without {}", without.join(", ")));
    }
    Ok(())
}

/// A sub-agent's file in the words of here, and what had to be left out; nothing where it does not say what it is.
fn agent(text: &str) -> Option<(String, Vec<String>)> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let (head, body) = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"))?;
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
    Some((format!("---\n{}\n---\n{body}", lines.join("\n")), dropped))
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
        let given = "---\nname: reviewer\ndescription: Reviews: all\ntools: Read, Grep, Task, Bash(git diff:*), WebFetch\nmodel: opus\ncolor: red\n---\nReview it.\n";
        let (text, dropped) = agent(given).unwrap();
        assert_eq!(
            text,
            "---\nname: reviewer\ndescription: Reviews: all\ntools: [read_file, grep, execute]\n---\nReview it.\n"
        );
        assert_eq!(dropped, ["the tool Task", "the tool WebFetch", "model opus", "color"]);
    }
}
