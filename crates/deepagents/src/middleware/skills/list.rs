//! The list of skills. Its size is limited, because every request carries it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::channels::Skill;
use crate::text::{shorten, truncated};

use super::source::Source;

const MAX_NAME: usize = 128;
/// Maximum characters of the list, the same as for a memory file.
const MAX_LIST: usize = 32_000;
/// Lengths of shortened descriptions, in characters. The first one with which all skills fit is used, otherwise the
/// last.
const SHORTENED: [usize; 4] = [512, 256, 128, 64];

/// Renders the skills, one per entry. If they exceed the limit, descriptions are shortened; if that is not enough,
/// skills of earlier sources are left out and counted.
pub(super) fn list(sources: &[Source], skills: &[Skill]) -> String {
    let places: Vec<String> = sources.iter().map(|source| format!("`{}`", source.path)).collect();
    let places = places.join(" or ");
    if skills.is_empty() {
        return format!("(No skills available yet. You can create skills in {places})");
    }
    let mut lines: Vec<String> = skills.iter().map(|skill| line(skill, usize::MAX)).collect();
    for most in SHORTENED {
        if size(&lines) <= MAX_LIST {
            break;
        }
        lines = skills.iter().map(|skill| line(skill, most)).collect();
    }
    let listed = listed(sources, skills, &lines);
    let left_out = lines.len() - listed.len();
    let mut shown: Vec<String> =
        lines.into_iter().enumerate().filter(|(at, _)| listed.contains(at)).map(|(_, line)| line).collect();
    if left_out > 0 {
        let skills = if left_out == 1 { "skill is" } else { "skills are" };
        shown.push(format!(
            "- and {left_out} more {skills} not listed here. When no skill above fits a task, search `SKILL.md` files \
             in {places} with `grep` for words of the task."
        ));
    }
    shown.join("\n")
}

fn size(lines: &[String]) -> usize {
    lines.iter().map(|line| line.chars().count() + 1).sum()
}

/// Returns the indices of the entries to show: as many as fit, later sources first.
fn listed(sources: &[Source], skills: &[Skill], lines: &[String]) -> BTreeSet<usize> {
    let source_of = |skill: &Skill| sources.iter().rposition(|source| skill.path.starts_with(&source.path));
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by_key(|at| Reverse(skills.get(*at).and_then(source_of)));
    let (mut room, mut listed) = (MAX_LIST, BTreeSet::new());
    for at in order {
        let Some(left) = lines.get(at).and_then(|line| room.checked_sub(line.chars().count() + 1)) else { continue };
        room = left;
        listed.insert(at);
    }
    listed
}

/// Renders a skill with at most `most` characters of its description.
fn line(skill: &Skill, most: usize) -> String {
    let mut notes = Vec::new();
    notes.extend(skill.license.as_ref().map(|license| format!("License: {}", cut(license, most))));
    notes.extend(skill.compatibility.as_ref().map(|needs| format!("Compatibility: {}", cut(needs, most))));
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
    let (name, description) = (shorten(&skill.name, MAX_NAME), cut(&skill.description, most));
    let mut out = format!("- **{name}**: {description}{notes} -> `{}`", skill.path);
    if !skill.allowed_tools.is_empty() {
        out.push_str(&format!("\n  -> Allowed tools: {}", cut(&skill.allowed_tools.join(", "), most)));
    }
    if !skill.tools.is_empty() {
        out.push_str(&format!("\n  -> Brings tools: {}", cut(&skill.tools.join(", "), most)));
    }
    out
}

/// Truncates a text, ending it with `…`.
fn cut(text: &str, most: usize) -> String {
    truncated(text, most, "…")
}
