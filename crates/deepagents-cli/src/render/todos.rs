//! The todo list, as far as it changed.

use serde_json::Value;

use super::style::{Style, first_line};

/// Characters of an item that are shown.
const SHOWN: usize = 100;

/// The todo list as it was shown last.
#[derive(Debug, Default)]
pub(super) struct TodoView {
    shown: Vec<(String, String)>,
}

impl TodoView {
    /// The lines to show for a new list: a head, and the items that are new or have moved. Nothing if nothing has.
    pub(super) fn update(&mut self, list: &Value, style: Style) -> Vec<String> {
        let text = |item: &Value, key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
        let now: Vec<(String, String)> =
            items.iter().map(|item| (text(item, "content"), text(item, "status"))).collect();
        let changed: Vec<&(String, String)> = now.iter().filter(|item| !self.shown.contains(item)).collect();
        if changed.is_empty() && now.len() == self.shown.len() {
            return Vec::new();
        }
        let done = now.iter().filter(|(_, status)| status == "completed").count();
        let head = if now.is_empty() { "Todos: none".to_owned() } else { format!("Todos {done}/{}", now.len()) };
        let mut lines = vec![style.bold(&head)];
        lines.extend(changed.into_iter().map(|(content, status)| {
            let content = first_line(content, SHOWN);
            match status.as_str() {
                "completed" => format!("  {} {}", style.green("☑"), style.dim(&content)),
                "in_progress" => format!("  {} {content}", style.yellow("◐")),
                _ => format!("  ☐ {content}"),
            }
        }));
        self.shown = now;
        lines
    }
}
