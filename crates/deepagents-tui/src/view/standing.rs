//! The status: current work and its cost, mode, model, context usage.

use ratatui::text::{Line, Span};

use crate::app::{App, Work};
use crate::duration;
use crate::key_map::Action;
use crate::policy::Mode;
use crate::text::{clip, grouped, shorten, visible};

/// Minimum columns for showing the cost of the work.
const MIN_COST_COLUMNS: usize = 60;
/// The frames of the spinner, which change every tenth of a second.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Renders the current work, its duration and the key that stops it.
pub(super) fn status(app: &App, columns: usize) -> Option<Line<'static>> {
    let theme = app.theme;
    if theme.spoken && app.is_busy() && app.questions.is_empty() {
        let words = if app.stopping {
            "stopping".to_owned()
        } else {
            format!("working; {} stops", app.keys.name(Action::Stop))
        };
        return Some(clip(&Line::from(words), columns));
    }
    if !app.is_moving() {
        return None;
    }
    let elapsed = app.elapsed_since(app.since.0);
    let spinner = SPINNER.get(usize::try_from(elapsed.as_millis() / 100 % 10).unwrap_or(0)).copied().unwrap_or("·");
    let words = match &app.work {
        _ if app.stopping => "stopping".to_owned(),
        Work::Shell(_) => "running".to_owned(),
        Work::Other(what) => (*what).to_owned(),
        _ => match &app.live.retry {
            Some(retry) => visible(&retry.describe(app.now.0)).into_owned(),
            None if !app.live.calls.is_empty() => "working".to_owned(),
            None if app.live.activity.is_empty() => "working".to_owned(),
            None => visible(&app.live.activity).into_owned(),
        },
    };
    let mut spans = vec![Span::styled(format!("{spinner} "), theme.accent)];
    let spent = if columns < MIN_COST_COLUMNS { String::new() } else { spent(app) };
    let clock = format!("  {}{spent}", duration::show(elapsed));
    let stop = format!("  {} stops", app.keys.name(Action::Stop));
    let room = columns.saturating_sub(2 + crate::text::width(&clock) + stop.len()).max(4);
    spans.push(Span::raw(shorten(&words, room.saturating_sub(1))));
    spans.push(Span::styled(clock, theme.dim));
    spans.push(Span::styled(stop, theme.dim));
    Some(clip(&Line::from(spans), columns))
}

/// Describes the output tokens since the work began, with an estimate for the current answer, and the cost of the work.
fn spent(app: &App) -> String {
    let coming = u64::try_from((app.live.answer.len() + app.live.thinking.len()) / 4).unwrap_or(0);
    let (now, (before, paid)) = (app.session.usage, app.spent_before);
    let tokens = now.output.saturating_sub(before.output).saturating_add(coming);
    let mut text = String::new();
    if tokens > 0 {
        let about = if coming > 0 { "~" } else { "" };
        text += &format!(" · {about}{} tokens", grouped(tokens));
    }
    let cost = app.session.dollars.map(|dollars| dollars - paid).filter(|cost| *cost > 0.0);
    text + &cost.map(|cost| format!(" · ${cost:.4}")).unwrap_or_default()
}

/// Renders the mode, the model, the directory and the context usage.
pub(super) fn footer(app: &App, columns: usize) -> Line<'static> {
    let theme = app.theme;
    if let Some(hint) = &app.hint {
        let hint = Span::styled(visible(hint).into_owned(), theme.warn);
        return clip(&Line::from(vec![mode(app), Span::styled(" · ", theme.dim), hint]), columns);
    }
    let mut parts = vec![visible(&app.session.model).into_owned()];
    if app.vi.as_ref().is_some_and(|vi| vi.mode == crate::input::ViMode::Normal) {
        parts.insert(0, "NORMAL".to_owned());
    }
    let window = app.session.connected.as_ref().and_then(|connected| connected.window).filter(|window| *window > 0);
    match window {
        Some(window) if app.session.context > 0 => {
            parts.push(format!("{} % of context", app.session.context.saturating_mul(100) / window));
        }
        _ if app.session.context > 0 => parts.push(format!("{} tokens", grouped(app.session.context))),
        _ => {}
    }
    if !app.background.is_empty() {
        parts.push(format!("{} in the background", app.background.len()));
    }
    parts.push(visible(&app.session.directory).into_owned());
    let line = Line::from(vec![mode(app), Span::styled(format!(" · {}", parts.join(" · ")), theme.dim)]);
    clip(&line, columns)
}

/// Renders the current mode, which is always visible.
pub(super) fn mode(app: &App) -> Span<'static> {
    let style = match app.mode {
        Mode::Ask => app.theme.good,
        Mode::Auto => app.theme.warn,
        Mode::Plan => app.theme.accent,
    };
    Span::styled(app.mode.as_str(), style)
}

/// Renders the notice about a question that is not visible.
pub(super) fn question_waits(app: &App, columns: usize) -> Line<'static> {
    let what = app.questions.current().map(|question| visible(&question.request.tool).into_owned());
    let text =
        format!("? {} waits for your decision · {} shows it", what.unwrap_or_default(), app.keys.name(Action::Stop));
    clip(&Line::from(Span::styled(text, app.theme.warn)), columns)
}
