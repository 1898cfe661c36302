//! Renders Markdown for the terminal.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::table::Table;
use super::{hard_wrap, highlight, visible, wrap};
use crate::theme::Theme;

/// The extensions of Markdown that are rendered.
pub(super) fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Renders a Markdown text. Control characters in it are made visible.
pub(crate) fn markdown(text: &str, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let text = visible(text);
    let mut page = Page { columns: columns.max(4), theme, ..Page::default() };
    for event in Parser::new_ext(&text, options()) {
        page.event(event);
    }
    page.flush();
    page.out
}

/// A text that is being laid out.
#[derive(Default)]
struct Page {
    columns: usize,
    theme: Theme,
    out: Vec<Line<'static>>,
    /// The prefix of each line: quote marks and list indents.
    prefix: Vec<&'static str>,
    /// The marker of an item, for its first line.
    marker: Option<String>,
    /// The open lists: the next number of each that is numbered.
    lists: Vec<Option<u64>>,
    styles: Vec<Style>,
    spans: Vec<Span<'static>>,
    /// The language and the text of an open code block.
    code: Option<(String, String)>,
    table: Option<Table>,
    /// The targets of the open links and images, and the number of spans before the text of each.
    links: Vec<(String, usize)>,
    /// Whether a blank line precedes the next block.
    gap: bool,
}

impl Page {
    fn style(&self) -> Style {
        self.styles.iter().fold(Style::new(), |all, style| all.patch(*style))
    }

    fn text(&mut self, text: &str) {
        let style = self.style();
        self.styled(text, style);
    }

    fn styled(&mut self, text: &str, style: Style) {
        if let Some(table) = &mut self.table {
            table.text(text, style);
        } else {
            self.spans.push(Span::styled(text.to_owned(), style));
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.finish(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.text(&text),
            },
            Event::Code(text) => {
                let style = self.style().patch(self.theme.inline_code);
                self.styled(&text, style);
            }
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.flush(),
            Event::Rule => {
                self.space();
                let rule = if self.theme.spoken { "---".to_owned() } else { "─".repeat(self.room().min(40)) };
                self.spans.push(Span::styled(rule, self.theme.dim));
                self.close_block();
            }
            Event::TaskListMarker(done) => self.text(match (done, self.theme.spoken) {
                (true, true) => "done: ",
                (false, true) => "open: ",
                (true, false) => "☑ ",
                (false, false) => "☐ ",
            }),
            Event::Html(text) | Event::InlineHtml(text) => {
                for (at, line) in text.split_inclusive('\n').enumerate() {
                    if at > 0 {
                        self.flush();
                    }
                    self.text(line.trim_end_matches('\n'));
                }
            }
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => self.text(&text),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.space(),
            Tag::Heading { level, .. } => {
                self.space();
                let under = if level == HeadingLevel::H1 { Modifier::UNDERLINED } else { Modifier::empty() };
                self.styles.push(self.theme.heading.add_modifier(under));
            }
            Tag::BlockQuote(_) => {
                self.space();
                self.prefix.push(if self.theme.spoken { "> " } else { "│ " });
            }
            Tag::CodeBlock(kind) => {
                self.space();
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.space();
                } else {
                    self.flush();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", number.saturating_sub(1))
                    }
                    _ if self.theme.spoken => "- ".to_owned(),
                    _ => "• ".to_owned(),
                };
                self.prefix.push("    ".get(..marker.chars().count().clamp(2, 4)).unwrap_or_default());
                self.marker = Some(marker);
                self.gap = false;
            }
            Tag::Table(alignments) => {
                self.space();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableCell => self.table.iter_mut().for_each(Table::cell),
            Tag::TableRow => self.table.iter_mut().for_each(Table::row),
            Tag::TableHead => {
                self.table.iter_mut().for_each(Table::row);
                self.styles.push(self.theme.bold);
            }
            Tag::Emphasis => self.styles.push(Modifier::ITALIC.into()),
            Tag::Strong => self.styles.push(Modifier::BOLD.into()),
            Tag::Strikethrough => self.styles.push(Modifier::CROSSED_OUT.into()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push((dest_url.to_string(), self.spans.len()));
                self.styles.push(self.theme.link);
            }
            _ => {}
        }
    }

    fn finish(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.close_block(),
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.close_block();
            }
            TagEnd::BlockQuote(_) => {
                self.close_block();
                self.prefix.pop();
            }
            TagEnd::CodeBlock => {
                if let Some((language, code)) = self.code.take() {
                    for line in highlight::highlight(&code, &language, self.theme) {
                        let mut spans = vec![Span::raw("  ")];
                        spans.extend(line.spans);
                        self.push(&Line::from(spans), false);
                    }
                }
                self.gap = true;
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                self.gap = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.flush();
                self.prefix.pop();
                self.marker = None;
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    for line in table.lines(self.room(), self.theme) {
                        self.push(&line, false);
                    }
                }
                self.gap = true;
            }
            TagEnd::TableHead | TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                if let Some((url, from)) = self.links.pop() {
                    let shown: String = self.spans.iter().skip(from).map(|span| &*span.content).collect();
                    // The target of a link is always shown, as its text may name another.
                    if !url.is_empty() && shown != url && url.strip_prefix("mailto:") != Some(&shown) {
                        self.styled(&format!(" ({url})"), self.theme.dim);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the columns after the prefix.
    fn room(&self) -> usize {
        let prefix: usize = self.shown_prefix().iter().map(|part| part.chars().count()).sum();
        self.columns.saturating_sub(prefix)
    }

    /// Returns the prefix to show. If it is deep, these are the innermost marks that fit into half of the columns.
    fn shown_prefix(&self) -> &[&'static str] {
        let mut width = 0;
        let fits = |part: &&&'static str| {
            width += part.chars().count();
            width * 2 <= self.columns
        };
        let shown = self.prefix.iter().rev().take_while(fits).count();
        self.prefix.get(self.prefix.len() - shown..).unwrap_or_default()
    }

    /// Ends a block.
    fn close_block(&mut self) {
        self.flush();
        self.gap = true;
    }

    /// Adds a blank line between blocks.
    fn space(&mut self) {
        self.flush();
        if std::mem::take(&mut self.gap) && !self.out.is_empty() {
            let quoted = self.prefix.contains(&"│ ");
            let mark = if quoted { Line::from(Span::styled("│", self.theme.dim)) } else { Line::default() };
            self.out.push(mark);
        }
    }

    fn flush(&mut self) {
        if !self.spans.is_empty() {
            let line = Line::from(std::mem::take(&mut self.spans));
            self.push(&line, true);
        }
    }

    /// Adds a line with the current prefix.
    fn push(&mut self, line: &Line<'static>, words: bool) {
        let room = self.room().max(2);
        let lines = if words { wrap(line, room, "") } else { hard_wrap(line, room, "") };
        for line in lines {
            let mut spans = Vec::new();
            let marker = self.marker.take();
            let prefix = self.shown_prefix();
            for (at, part) in prefix.iter().enumerate() {
                let is_item = part.trim().is_empty() && at + 1 == prefix.len();
                match &marker {
                    Some(marker) if is_item => {
                        spans.push(Span::styled(format!("{marker:<width$}", width = part.len()), self.theme.accent));
                    }
                    _ => spans.push(Span::styled(*part, self.theme.dim)),
                }
            }
            spans.extend(line.spans);
            self.out.push(Line::from(spans));
        }
    }
}

#[cfg(test)]
mod tests;
