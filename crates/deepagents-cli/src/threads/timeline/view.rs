//! Runs as a text waterfall.

use std::time::Duration;

use deepagents::Usage;
use deepagents::core::journal::ThreadInfo;

use super::super::list;
use super::read::{Part, Row, Timeline};
use crate::render::style::{first_line, grouped};
use crate::{duration, money};

/// Width of the bars in columns.
const BAR_COLUMNS: u64 = 30;
/// Width of the names in columns.
const NAME_COLUMNS: usize = 34;

/// Formats the whole timeline.
pub(super) fn text(info: &ThreadInfo, timeline: &Timeline) -> String {
    let mut out = format!("thread {} · {}\n", info.id, list::standing(info));
    let (mut usage, mut cost, mut waited) = (Usage::default(), Some(0.0), 0);
    for part in &timeline.parts {
        out.push('\n');
        match part {
            Part::Run(rows) => {
                let whole = rows.first().and_then(|root| root.millis).unwrap_or_default();
                rows.iter().for_each(|row| out += &line(row, whole));
                if let Some(root) = rows.first() {
                    usage += root.usage;
                    let known = if root.usage == Usage::default() { Some(0.0) } else { root.cost };
                    cost = cost.zip(known).map(|(sum, own)| sum + own);
                }
            }
            Part::Interrupted { millis, tools } => {
                waited += millis.unwrap_or(0);
                let since = millis.map_or_else(|| "still waiting".to_owned(), |n| format!("waited {}", time(n)));
                out += &format!("⏸ {since} for a decision about {}\n", tools.join(", "));
            }
        }
    }
    let waits = if waited == 0 { String::new() } else { format!(" · {} of waiting", time(waited)) };
    out + &format!("\nin all {}{waits}", spent(usage, cost))
}

fn line(row: &Row, whole: u64) -> String {
    let indent = "  ".repeat(row.depth);
    let name = format!("{indent}{}", first_line(&visible(&row.name), NAME_COLUMNS.saturating_sub(indent.len() + 1)));
    let spent = if row.usage == Usage::default() { String::new() } else { spent(row.usage, row.cost) };
    let note = row.note.as_ref().map(|note| format!("  ! {}", visible(note))).unwrap_or_default();
    let line = format!(
        "{name:<NAME_COLUMNS$} {:>8}  {}  {spent}{note}",
        row.millis.map(time).unwrap_or_default(),
        bar(row, whole)
    );
    format!("{}\n", line.trim_end())
}

/// Makes text visible on one line: tool names come from the model.
fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn bar(row: &Row, whole: u64) -> String {
    let Some(millis) = row.millis else { return " ".repeat(columns(BAR_COLUMNS)) };
    let whole = whole.max(1);
    let column = |millis: u64| millis.min(whole).saturating_mul(BAR_COLUMNS) / whole;
    let from = column(row.start).min(BAR_COLUMNS - 1);
    let until = column(row.start.saturating_add(millis)).clamp(from, BAR_COLUMNS);
    let (before, long) = (" ".repeat(columns(from)), columns(until - from));
    let drawn = if long == 0 { "▏".to_owned() } else { "█".repeat(long) };
    let after = " ".repeat(columns(BAR_COLUMNS).saturating_sub(columns(from) + long.max(1)));
    format!("{before}{drawn}{after}")
}

fn columns(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn time(millis: u64) -> String {
    duration::show(Duration::from_millis(millis))
}

/// Formats `1,200 in (83% cached), 34 out, $0.0041`.
fn spent(usage: Usage, cost: Option<f64>) -> String {
    let cached = match usage.cache_read.saturating_mul(100).checked_div(usage.input) {
        Some(percent) if percent > 0 => format!(" ({percent}% cached)"),
        _ => String::new(),
    };
    let tokens = format!("{} in{cached}, {} out", grouped(usage.input), grouped(usage.output));
    match cost {
        Some(cost) if cost > 0.0 => format!("{tokens}, {}", money::show(cost)),
        _ => tokens,
    }
}

#[cfg(test)]
mod tests {
    use deepagents::core::env::Timestamp;

    use super::*;

    fn row(depth: usize, name: &str, start: u64, millis: u64) -> Row {
        let (usage, cost, is_request, note, millis) = (Usage::default(), None, false, None, Some(millis));
        Row { depth, name: name.to_owned(), start, millis, usage, cost, is_request, note }
    }

    #[test]
    fn a_thread_that_waited_for_a_person_is_drawn_as_a_waterfall() {
        let tokens = |input, cache_read, output| Usage { input, output, cache_read, ..Usage::default() };
        let first = vec![
            Row {
                usage: tokens(12_000, 6_000, 340),
                cost: Some(0.0512),
                note: Some("waiting".to_owned()),
                ..row(0, "agent main", 0, 12_400)
            },
            Row { usage: tokens(4_000, 0, 100), cost: Some(0.02), ..row(1, "chat sonnet", 10, 2_100) },
            row(1, "tool task", 2_200, 10_000),
            Row { usage: tokens(8_000, 6_000, 240), cost: Some(0.0312), ..row(2, "agent researcher", 2_300, 9_800) },
            Row { note: Some("tool_error".to_owned()), ..row(3, "tool a\nname that goes on and on and on", 12_000, 3) },
        ];
        let second = vec![row(0, "agent main", 0, 0)];
        let waited = Part::Interrupted { millis: Some(3_723_000), tools: vec!["execute".to_owned()] };
        let open = Part::Interrupted { millis: None, tools: vec!["delete".to_owned()] };
        let timeline = Timeline { parts: vec![Part::Run(first), waited, Part::Run(second), open] };
        let info = ThreadInfo::new("t1", Timestamp::UNIX_EPOCH);
        let expected = [
            "thread t1 · empty",
            "",
            "agent main                           12.4 s  ██████████████████████████████  12,000 in (50% cached), 340 out, $0.051  ! waiting",
            "  chat sonnet                         2.1 s  █████                           4,000 in, 100 out, $0.020",
            "  tool task                          10.0 s       ████████████████████████",
            "    agent researcher                  9.8 s       ████████████████████████   8,000 in (75% cached), 240 out, $0.031",
            "      tool a name that goes on an…     3 ms                               ▏    ! tool_error",
            "",
            "⏸ waited 1h02m for a decision about execute",
            "",
            "agent main                             0 ms  ▏",
            "",
            "⏸ still waiting for a decision about delete",
            "",
            "in all 12,000 in (50% cached), 340 out, $0.051 · 1h02m of waiting",
        ];
        assert_eq!(text(&info, &timeline).lines().collect::<Vec<_>>(), expected);
    }
}
