//! The structured text of a summary, and what it carries over from the previous one.

use serde::{Deserialize, Serialize};

/// Sections that carry over to later summaries until they are changed.
const LASTING: [&str; 4] = ["Goal", "Instructions", "Decisions", "Paths"];

/// A summary in sections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryText {
    /// The text before the first heading.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub preamble: String,
    /// Headings and their text, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<(String, String)>,
}

impl SummaryText {
    /// Splits a model's answer at its `## ` headings.
    pub(super) fn parse(answer: &str) -> Self {
        let mut out = Self::default();
        let mut fenced = false;
        for line in answer.trim().lines() {
            fenced ^= line.trim_start().starts_with("```");
            match line.strip_prefix("## ").filter(|_| !fenced) {
                Some(title) => out.sections.push((title.trim().trim_end_matches(':').to_owned(), String::new())),
                None => {
                    let body = out.sections.last_mut().map_or(&mut out.preamble, |(_, body)| body);
                    body.push_str(line);
                    body.push('\n');
                }
            }
        }
        out.preamble.truncate(out.preamble.trim_end().len());
        for (_, body) in &mut out.sections {
            *body = body.trim().to_owned();
        }
        out
    }

    /// Carries over the lasting sections of an earlier summary that this one lacks.
    pub(super) fn after(mut self, earlier: &Self) -> Self {
        let mut kept = Vec::new();
        for (title, body) in earlier.sections.iter().filter(|(title, body)| lasts(title) && !is_blank(body)) {
            match self.sections.iter_mut().find(|(own, _)| own.eq_ignore_ascii_case(title)) {
                Some((_, own)) if is_blank(own) => own.clone_from(body),
                Some(_) => {}
                None => kept.push((title.clone(), body.clone())),
            }
        }
        self.sections.splice(0..0, kept);
        self
    }

    /// Formats the summary as text.
    pub(super) fn render(&self) -> String {
        let preamble = Some(&self.preamble).filter(|text| !text.is_empty()).cloned();
        let sections = self.sections.iter().filter(|(_, body)| !is_blank(body));
        let sections = sections.map(|(title, body)| format!("## {title}\n{body}"));
        preamble.into_iter().chain(sections).collect::<Vec<_>>().join("\n\n")
    }
}

fn lasts(title: &str) -> bool {
    LASTING.iter().any(|lasting| lasting.eq_ignore_ascii_case(title))
}

fn is_blank(body: &str) -> bool {
    let body = body.trim().trim_end_matches('.');
    body.is_empty() || body.eq_ignore_ascii_case("none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_sections_survive_summaries_that_omit_them() {
        let first = SummaryText::parse("## Goal\nShip it.\n\n## Paths\n/a.rs: new\n\n## State\nHalf done.");
        let second = SummaryText::parse("## Goal\nNone\n## State\nDone.").after(&first);
        let third = SummaryText::parse("Nothing happened.").after(&second);
        assert_eq!(second.render(), "## Paths\n/a.rs: new\n\n## Goal\nShip it.\n\n## State\nDone.");
        assert_eq!(third.render(), "Nothing happened.\n\n## Paths\n/a.rs: new\n\n## Goal\nShip it.");
    }

    #[test]
    fn a_restated_section_replaces_the_old_one_and_state_is_not_carried_over() {
        let first = SummaryText::parse("## Goal\nShip it.\n## State\nBroken.");
        let second = SummaryText::parse("## goal:\nShip it twice.").after(&first);
        assert_eq!(second.render(), "## goal\nShip it twice.");
    }

    #[test]
    fn headings_inside_code_are_text() {
        let text = SummaryText::parse("## State\n```\n## not a heading\n```");
        assert_eq!(text.sections.len(), 1);
        assert_eq!(text.render(), "## State\n```\n## not a heading\n```");
    }
}
