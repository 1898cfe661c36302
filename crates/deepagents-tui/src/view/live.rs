//! The live area: what is under way, the input, and how things stand.

use deepagents::channels::TodoStatus;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::items::{Detail, call_title, todo_lines};
use super::panels::{self, Panel};
use super::printer::Printer;
use crate::app::live::RunningCall;
use crate::app::menu::ROWS;
use crate::app::{App, Overlay, QueuedMessage, Work};
use crate::duration;
use crate::policy::Mode;
use crate::text::{clip, count, grouped, markdown, shorten, visible};

/// Columns from which on what the work costs is told beside it.
const ROOM_FOR_COSTS: usize = 60;
/// Pictures of the clock that shows that something goes on, one each tenth of a second.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Lines of a command's output that are shown while it runs.
const OUTPUT: usize = 4;
/// Rows that the input takes at most.
const INPUT: usize = 10;

/// The answer that comes and the calls that are under way, whole.
pub(super) fn under_way(app: &App, columns: usize) -> Vec<Line<'static>> {
    let mut lines = markdown(app.live.answer.trim(), columns, app.theme);
    lines.extend(at_work(app, columns, Detail::Full));
    lines
}

/// The picture of the live area and where the cursor is in it. Parts give way where there is little room, the input last.
pub(crate) fn live(app: &App, printer: &Printer) -> (Buffer, Option<(u16, u16)>) {
    let (columns, rows) = (usize::from(app.size.0), usize::from(app.size.1));
    // A row stays for what scrolls by, but where there is hardly one.
    let most = if rows > 3 { rows - 1 } else { rows };
    let footer = (rows > 2).then(|| footer(app, columns));
    let covered = !app.questions.is_empty() && !app.shows_question();
    let status = match covered {
        true if rows > 2 => Some(question_waits(app, columns)),
        _ => (app.is_busy() && rows > 3).then(|| status(app, columns)).flatten(),
    };
    let own = (!app.status_line.is_empty() && rows > 6)
        .then(|| clip(&Line::from(Span::raw(visible(&app.status_line).into_owned())), columns));
    let mut room = most - usize::from(footer.is_some()) - usize::from(status.is_some()) - usize::from(own.is_some());

    let panel = panel(app, columns, room.saturating_sub(1).max(1));
    let asks = panel.as_ref().is_some_and(|panel| panel.cursor.is_some());
    let replaces = !matches!(app.overlay, Overlay::None | Overlay::Search { .. });
    let most_input = if panel.is_some() { room / 3 } else { room };
    // Where a list is chosen from, or a reason is written, there is no other input.
    let input = if asks || (replaces && panel.is_some()) {
        None
    } else {
        Some(input(app, columns, most_input.clamp(1, INPUT)))
    };
    let input_rows = input.as_ref().map_or(0, |input| input.lines.len());
    // A question has its keys however much is typed.
    let panel = if input_rows > 1 { self::panel(app, columns, room.saturating_sub(input_rows).max(1)) } else { panel };
    room = room.saturating_sub(input_rows);
    let mut panel = panel.unwrap_or_default();
    panel.lines.truncate(room);
    room -= panel.lines.len();

    let menu = match (&app.menu, app.overlay.is_none()) {
        (Some(menu), true) => panels::menu(menu, columns, ROWS.min(room), app.theme),
        _ => Vec::new(),
    };
    room -= menu.len();

    let mut above = waiting(app, columns, room);
    room -= above.len();
    let mut activity = activity(app, columns, room);
    room -= activity.len();
    // Who listens is read an answer once, when a part of it is whole.
    let tail = if app.theme.spoken { 0 } else { room.min(rows / 2 + 1) };
    let mut lines = printer.tail(app, tail);
    let apart = room - lines.len() > 0 && rows > 8;
    lines.append(&mut activity);
    lines.append(&mut above);
    if apart {
        lines.push(Line::default());
    }
    lines.extend(status);
    let panel_at = lines.len();
    lines.append(&mut panel.lines);
    let mut cursor = panel.cursor.map(|(x, y)| (x, panel_at + y));
    if let Some(input) = input {
        cursor = cursor.or(input.cursor.map(|(x, y)| (x, lines.len() + y)));
        lines.extend(input.lines);
    }
    lines.extend(menu);
    lines.extend(own);
    lines.extend(footer);
    paint(&lines, cursor, columns)
}

/// The cells of lines.
pub(super) fn paint(
    lines: &[Line<'static>],
    cursor: Option<(usize, usize)>,
    columns: usize,
) -> (Buffer, Option<(u16, u16)>) {
    let small = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    let area = Rect::new(0, 0, small(columns), small(lines.len().max(1)));
    let mut buffer = Buffer::empty(area);
    for (at, line) in lines.iter().enumerate() {
        buffer.set_line(0, small(at), line, area.width);
    }
    (buffer, cursor.map(|(x, y)| (small(x), small(y))))
}

fn panel(app: &App, columns: usize, rows: usize) -> Option<Panel> {
    match &app.overlay {
        Overlay::Secret { provider, editor } => Some(panels::secret(provider, editor, columns, app.theme)),
        Overlay::Picker(picker) => Some(super::picker::picker(app, picker, columns, rows.min(20))),
        Overlay::Trust { title, body, .. } => Some(panels::trust(title, body, columns, rows, app.theme)),
        _ if app.questions.current().is_some() => Some(super::question::question(app, columns, rows)),
        _ => None,
    }
}

/// The input.
fn input(app: &App, columns: usize, rows: usize) -> Panel {
    let theme = app.theme;
    let lead = match &app.overlay {
        Overlay::Search { words, skip } if !words.is_empty() && app.history.search(words, *skip).is_none() => {
            format!("(search: {words}: nothing fits) ")
        }
        Overlay::Search { words, .. } => format!("(search: {words}) "),
        _ => "› ".to_owned(),
    };
    let lead = if columns > 8 { lead } else { String::new() };
    let indent = crate::text::width(&lead).min(columns.saturating_sub(4));
    let (all, (x, y)) = app.editor.rows(columns.saturating_sub(indent + 1));
    let first = y.saturating_sub(rows.saturating_sub(1)).min(all.len().saturating_sub(rows));
    let shell = app.editor.text().starts_with('!');
    let lines = all.into_iter().enumerate().skip(first).take(rows).map(|(at, row)| {
        let lead = if at == 0 { lead.clone() } else { " ".repeat(indent) };
        let style = if shell { theme.warn } else { theme.user };
        let empty = app.editor.is_empty() && columns > 30 && app.questions.is_empty();
        let text = if empty { Span::styled(placeholder(app), theme.dim) } else { Span::raw(row.text) };
        Line::from(vec![Span::styled(lead, style), text])
    });
    Panel { lines: lines.collect(), cursor: Some((indent + x, y - first)) }
}

/// What an empty input is for.
fn placeholder(app: &App) -> &'static str {
    match (&app.plan, app.mode) {
        (Some(_), Mode::Auto) => "Enter carries out the plan · or say what to change",
        (Some(_), _) => "Enter carries out the plan, asking you · or say what to change",
        (None, _) => "ask for something, or / for commands",
    }
}

/// Messages that the run has not taken yet.
fn waiting(app: &App, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let line = |waiting: &QueuedMessage| {
        let text = shorten(&visible(&waiting.text), columns.saturating_sub(12));
        clip(&Line::from(Span::styled(format!("↳ waiting: {text}"), app.theme.dim)), columns)
    };
    app.waiting.iter().rev().take(rows.min(4)).map(line).collect::<Vec<_>>().into_iter().rev().collect()
}

/// Calls, sub-agents and the plan.
fn activity(app: &App, columns: usize, rows: usize) -> Vec<Line<'static>> {
    if !app.is_busy() || rows == 0 {
        return Vec::new();
    }
    let theme = app.theme;
    let mut lines = at_work(app, columns, Detail::Brief);
    if !app.live.thinking.is_empty() {
        let words = app.live.thinking.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let text = format!("✻ {}", shorten(&visible(words), columns));
        lines.push(clip(&Line::from(Span::styled(text, theme.dim)), columns));
    }
    lines.truncate(rows);
    let room = rows - lines.len();
    // A plan that is carried out has nothing more to say; /todos shows it.
    let has_open = app.todos.iter().any(|todo| todo.status != TodoStatus::Completed);
    if has_open && room > 0 {
        lines.extend(todo_lines(&app.todos, room.min(8), columns, theme));
    }
    lines
}

/// The command of the person, calls and sub-agents, with the last of their output or all that is kept of it.
fn at_work(app: &App, columns: usize, detail: Detail) -> Vec<Line<'static>> {
    let output = |text: &str, most: usize| match detail {
        Detail::Brief => last_lines(text, most, columns, app),
        Detail::Full => last_lines(text, usize::MAX, columns, app),
    };
    let mut lines = Vec::new();
    if let Work::Shell { command, output: text, .. } = &app.work {
        lines.push(clip(&Line::from(format!("$ {}", visible(command))), columns));
        lines.extend(output(text, OUTPUT * 2));
    }
    let open: Vec<_> = app.live.calls.iter().filter(|(call, _)| call.path.is_empty()).collect();
    // What waits for a decision is shown by the question.
    let asked = app.questions.current().map(|question| &question.request.call);
    for (call, running) in &open {
        if Some(*call) == asked {
            continue;
        }
        if running.call.name == "task" {
            let own = format!("task:{}.{}", call.turn, call.index);
            lines.extend(agent(app, &[own], running, 0, columns));
        } else {
            lines.push(running_call(app, running, 0, columns));
            lines.extend(output(&running.call.result, OUTPUT));
        }
    }
    lines
}

fn running_call(app: &App, running: &RunningCall, depth: usize, columns: usize) -> Line<'static> {
    let title = call_title(&running.call.name, &running.call.args);
    let elapsed = app.now.saturating_duration_since(running.since);
    let mut spans = vec![
        Span::raw("  ".repeat(depth)),
        Span::styled("◌ ", app.theme.warn),
        Span::raw(shorten(&title, columns.saturating_sub(14 + depth * 2).max(8))),
    ];
    if elapsed.as_secs() > 0 {
        spans.push(Span::styled(format!("  {}", duration::show(elapsed)), app.theme.dim));
    }
    clip(&Line::from(spans), columns)
}

/// A sub-agent, what it does now, and those below it.
fn agent(app: &App, path: &[String], running: &RunningCall, depth: usize, columns: usize) -> Vec<Line<'static>> {
    let Some(agent_at_work) = app.live.agents.get(path) else {
        return vec![running_call(app, running, depth, columns)];
    };
    let work = &agent_at_work.work;
    let indent = "  ".repeat(depth);
    let elapsed = duration::show(app.now.saturating_duration_since(agent_at_work.since));
    let cost = if work.dollars > 0.0 { format!(" · ${:.4}", work.dollars) } else { String::new() };
    let facts = format!("  {} · {} tokens{cost} · {elapsed}", count(work.calls as u64, "call"), grouped(work.tokens));
    let name = if work.name.is_empty() { "sub-agent" } else { &work.name };
    let room = columns.saturating_sub(facts.len() + name.len() + indent.len() + 6);
    let head = Line::from(vec![
        Span::raw(indent.clone()),
        Span::styled("◌ ", app.theme.warn),
        Span::styled(visible(name).into_owned(), app.theme.bold),
        Span::raw(format!(" {}", shorten(&visible(&work.task), room.max(10)))),
        Span::styled(facts, app.theme.dim),
    ]);
    let mut lines = vec![clip(&head, columns)];
    let below = app.live.calls.iter().filter(|(call, _)| call.path == path);
    let mut quiet = true;
    for (call, running) in below {
        quiet = false;
        if running.call.name == "task" {
            let child: Vec<String> =
                path.iter().cloned().chain([format!("task:{}.{}", call.turn, call.index)]).collect();
            lines.extend(agent(app, &child, running, depth + 1, columns));
        } else {
            lines.push(running_call(app, running, depth + 1, columns));
        }
    }
    if quiet {
        // What it did last, where it does nothing but think.
        let words = agent_at_work.words();
        let last = if words.is_empty() { last_call(work) } else { words.to_owned() };
        if !last.is_empty() {
            let text = format!("{indent}  └ {}", shorten(&visible(&last), columns));
            lines.push(clip(&Line::from(Span::styled(text, app.theme.dim)), columns));
        }
    }
    lines
}

fn last_call(work: &crate::app::transcript::AgentWork) -> String {
    use crate::app::transcript::Item;
    let title = |item: &Item| match item {
        Item::Call(call) => Some(call_title(&call.name, &call.args)),
        _ => None,
    };
    work.items.iter().rev().find_map(title).unwrap_or_default()
}

fn last_lines(text: &str, most: usize, columns: usize, app: &App) -> Vec<Line<'static>> {
    let text = visible(text.trim_end());
    let lines: Vec<&str> = text.lines().rev().take(most).collect();
    let line = |line: &&str| clip(&Line::from(Span::styled(format!("  {line}"), app.theme.dim)), columns);
    lines.iter().rev().map(line).collect()
}

/// That something is asked which cannot be seen now.
pub(super) fn question_waits(app: &App, columns: usize) -> Line<'static> {
    let what = app.questions.current().map(|question| visible(&question.request.tool).into_owned());
    let text = format!("? {} waits for your decision · Esc shows it", what.unwrap_or_default());
    clip(&Line::from(Span::styled(text, app.theme.warn)), columns)
}

/// What goes on, for how long, and how to stop it.
fn status(app: &App, columns: usize) -> Option<Line<'static>> {
    let theme = app.theme;
    if theme.spoken && app.is_busy() && app.questions.is_empty() {
        return Some(clip(&Line::from(if app.stopping { "stopping" } else { "working; Esc stops" }), columns));
    }
    if !app.is_moving() {
        return None;
    }
    let elapsed = app.now.saturating_duration_since(app.since);
    let spinner = SPINNER.get(usize::try_from(elapsed.as_millis() / 100 % 10).unwrap_or(0)).copied().unwrap_or("·");
    let words = match &app.work {
        _ if app.stopping => "stopping".to_owned(),
        Work::Shell { .. } => "running".to_owned(),
        Work::Other(what) => (*what).to_owned(),
        _ => match &app.live.retry {
            Some((at, reason)) => {
                let left = at.saturating_duration_since(app.now);
                format!("trying again in {}: {}", duration::show(left), shorten(&visible(reason), 200))
            }
            None if !app.live.calls.is_empty() => "working".to_owned(),
            None if app.live.activity.is_empty() => "working".to_owned(),
            None => visible(&app.live.activity).into_owned(),
        },
    };
    let mut spans = vec![Span::styled(format!("{spinner} "), theme.accent)];
    let spent = if columns < ROOM_FOR_COSTS { String::new() } else { spent(app) };
    let clock = format!("  {}{spent}", duration::show(elapsed));
    let stop = "  Esc stops";
    let room = columns.saturating_sub(2 + crate::text::width(&clock) + stop.len()).max(4);
    spans.push(Span::raw(shorten(&words, room.saturating_sub(1))));
    spans.push(Span::styled(clock, theme.dim));
    spans.push(Span::styled(stop, theme.dim));
    Some(clip(&Line::from(spans), columns))
}

/// The tokens that the model has answered with since the work began, an estimate for what comes just now, and what all of
/// the work has cost.
fn spent(app: &App) -> String {
    let coming = u64::try_from((app.live.answer.len() + app.live.thinking.len()) / 4).unwrap_or(0);
    let (now, before) = (app.session.usage, app.spent_before);
    let tokens = now.output.saturating_sub(before.output).saturating_add(coming);
    let mut text = String::new();
    if tokens > 0 {
        let about = if coming > 0 { "~" } else { "" };
        text += &format!(" · {about}{} tokens", grouped(tokens));
    }
    let price = app.session.connected.as_ref().and_then(|connected| connected.price);
    let cost = price.map(|price| price.cost(now) - price.cost(before)).filter(|cost| *cost > 0.0);
    text + &cost.map(|cost| format!(" · ${cost:.4}")).unwrap_or_default()
}

/// The mode, the model, the directory, how full the window is.
fn footer(app: &App, columns: usize) -> Line<'static> {
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

/// The word of the present mode, which is always on the screen.
pub(super) fn mode(app: &App) -> Span<'static> {
    let style = match app.mode {
        Mode::Ask => app.theme.good,
        Mode::Auto => app.theme.warn,
        Mode::Plan => app.theme.accent,
    };
    Span::styled(app.mode.as_str(), style)
}
