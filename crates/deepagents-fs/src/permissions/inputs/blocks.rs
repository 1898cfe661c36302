//! The tasks in a file that defines several.

use std::collections::BTreeMap;

use super::tools::Commands;

/// A task, or what is outside all of them.
#[derive(Default)]
struct Block<'a> {
    /// Its names; none for what is outside of tasks.
    names: Vec<&'a str>,
    lines: Vec<&'a str>,
}

/// Returns the lines of files, which include each other, that matter to a command with these words: those outside of
/// tasks, those of the tasks that it names, and of the tasks that these name. If it names none, all of them matter.
pub(super) fn lines_for<'a>(texts: &'a [String], format: Commands, words: &[&str]) -> Vec<&'a str> {
    let blocks: Vec<Block<'_>> = texts.iter().flat_map(|text| blocks(text, format)).collect();
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, block) in blocks.iter().enumerate() {
        block.names.iter().for_each(|name| by_name.entry(*name).or_default().push(at));
    }
    let named = words.iter().flat_map(|word| parts(word)).filter_map(|name| by_name.remove(name));
    let mut todo: Vec<usize> = named.flatten().collect();
    let is_any = todo.is_empty();
    // Rules for patterns, and computed names, may be about any task.
    let is_always =
        |block: &Block<'_>| block.names.is_empty() || block.names.iter().any(|name| name.contains(['%', '$']));
    todo.extend(blocks.iter().enumerate().filter(|(_, block)| is_any || is_always(block)).map(|(at, _)| at));
    let mut found = BTreeMap::new();
    while let Some(at) = todo.pop() {
        let Some(block) = blocks.get(at).filter(|block| found.insert(at, &block.lines).is_none()) else { continue };
        for line in &block.lines {
            let mentioned = line.split(|c: char| !c.is_alphanumeric() && !"-_.:/".contains(c)).flat_map(parts);
            todo.extend(mentioned.filter_map(|name| by_name.remove(name)).flatten());
        }
    }
    found.into_values().flatten().copied().collect()
}

/// Returns the names of tasks that a word may stand for: `docs:build` is one, or `build` of an included file.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    std::iter::once(word.trim_matches(':')).chain(word.split(':'))
}

fn blocks(text: &str, format: Commands) -> Vec<Block<'_>> {
    let mut blocks = vec![Block::default()];
    // How far the names of tasks are indented.
    let mut depth = if format == Commands::Recipes { Some(0) } else { None };
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let names = if format == Commands::Recipes { rule(line, indent) } else { key(line, indent) };
        match names {
            Some(names) if depth.is_none_or(|depth| depth == indent) => {
                depth = Some(indent);
                blocks.push(Block { names, lines: Vec::new() });
            }
            // A line that is indented less ends a task.
            _ if !line.trim().is_empty()
                && depth.is_some_and(|depth| indent < depth || (indent == 0 && depth == 0)) =>
            {
                blocks.push(Block::default());
            }
            _ => {}
        }
        if let Some(block) = blocks.last_mut() {
            block.lines.push(line);
        }
    }
    blocks
}

/// Returns the names before the colon of a rule, as in a `Makefile`.
fn rule(line: &str, indent: usize) -> Option<Vec<&str>> {
    let (names, rest) = line.split_once(':').filter(|(names, _)| indent == 0 && !names.contains(['=', '#', '"']))?;
    (!names.is_empty() && !rest.trim_start_matches(':').starts_with('=')).then(|| names.split_whitespace().collect())
}

/// Returns the key of an indented line that has no value, as in YAML.
fn key(line: &str, indent: usize) -> Option<Vec<&str>> {
    let key = line.trim().strip_suffix(':').filter(|_| indent > 0)?;
    Some(vec![key.trim_matches(['"', '\''])])
}
