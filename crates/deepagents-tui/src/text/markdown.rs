//! Renders Markdown for the terminal.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::table::Table;
use super::{hard_wrap, highlight, visible, wrap};
use crate::theme::Theme;

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Renders a Markdown text. Control characters in it are made visible.
pub(crate) fn markdown(text: &str, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let text = visible(text);
    let mut page = Page::new(columns, theme);
    for event in Parser::new_ext(&text, options()) {
        page.event(event);
    }
    page.end()
}

/// Returns the start of the last block of a Markdown text, and whether it is a table. Further text does not change what
/// precedes it. The last line counts only once it is complete, as a `|` may become a row of the table above it.
pub(crate) fn last_block(text: &str) -> (usize, bool) {
    let text = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let (mut depth, mut last) = (0_usize, (0, false));
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    last = (range.start, matches!(tag, Tag::Table(_)));
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            _ if depth == 0 => last = (range.start, false),
            _ => {}
        }
    }
    last
}

/// An open list: its next number, if it is numbered.
type List = Option<u64>;

struct Page {
    columns: usize,
    theme: Theme,
    out: Vec<Line<'static>>,
    /// The prefix of each line: quote marks and list indents.
    prefix: Vec<&'static str>,
    /// The marker of an item, for its first line.
    marker: Option<String>,
    lists: Vec<List>,
    styles: Vec<Style>,
    spans: Vec<Span<'static>>,
    code: Option<(String, String)>,
    table: Option<Table>,
    link: Option<(String, usize)>,
    /// Whether a blank line precedes the next block.
    gap: bool,
}

impl Page {
    fn new(columns: usize, theme: Theme) -> Self {
        Self {
            columns: columns.max(4),
            theme,
            out: Vec::new(),
            prefix: Vec::new(),
            marker: None,
            lists: Vec::new(),
            styles: Vec::new(),
            spans: Vec::new(),
            code: None,
            table: None,
            link: None,
            gap: false,
        }
    }

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
                let room = self.columns.saturating_sub(self.indent_width()).min(40);
                let rule = if self.theme.spoken { "---".to_owned() } else { "─".repeat(room) };
                self.spans.push(Span::styled(rule, self.theme.dim));
                self.flush();
                self.gap = true;
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
                let under = level == HeadingLevel::H1;
                let style =
                    if under { self.theme.heading.add_modifier(Modifier::UNDERLINED) } else { self.theme.heading };
                self.styles.push(style);
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
                self.prefix.push(match marker.chars().count() {
                    ..=2 => "  ",
                    3 => "   ",
                    _ => "    ",
                });
                self.marker = Some(marker);
                self.gap = false;
            }
            Tag::Table(alignments) => {
                self.space();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableCell => {
                if let Some(table) = &mut self.table {
                    table.cell();
                }
            }
            Tag::TableRow | Tag::TableHead => {
                if let Some(table) = &mut self.table {
                    table.row();
                }
                if matches!(tag, Tag::TableHead) {
                    self.styles.push(self.theme.bold);
                }
            }
            Tag::Emphasis => self.styles.push(Style::new().add_modifier(Modifier::ITALIC)),
            Tag::Strong => self.styles.push(Style::new().add_modifier(Modifier::BOLD)),
            Tag::Strikethrough => self.styles.push(Style::new().add_modifier(Modifier::CROSSED_OUT)),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some((dest_url.to_string(), self.spans.len()));
                self.styles.push(self.theme.link);
            }
            _ => {}
        }
    }

    fn finish(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => {
                self.flush();
                self.gap = true;
            }
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.flush();
                self.gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.prefix.pop();
                self.gap = true;
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
                    let room = self.columns.saturating_sub(self.indent_width());
                    for line in table.lines(room, self.theme) {
                        self.push(&line, false);
                    }
                }
                self.gap = true;
            }
            TagEnd::TableHead => {
                self.styles.pop();
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                if let Some((url, from)) = self.link.take() {
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

    fn indent_width(&self) -> usize {
        self.shown_prefix().iter().map(|part| part.chars().count()).sum()
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
        let room = self.columns.saturating_sub(self.indent_width()).max(2);
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

    fn end(mut self) -> Vec<Line<'static>> {
        if let Some((language, code)) = self.code.take() {
            self.code = Some((language, code));
            self.finish(TagEnd::CodeBlock);
        }
        self.flush();
        self.out
    }
}

#[cfg(test)]
mod tests;
