//! Plans from lists in a task.

use deepagents_core::error::BoxError;
use deepagents_core::run::Context;

use super::Planner;
use super::lines::{Line, ListMarker, lines};
use crate::text::one_line;

/// Minimum number of items of a list.
const FEWEST: usize = 2;
/// Maximum number of items; more are data rather than a plan.
const MAX_ITEMS: usize = 50;
/// Maximum number of characters of an item; the task has the rest.
const MAX_ITEM_CHARS: usize = 200;

/// Turns a list in the task into todo items, and does nothing otherwise. It looks only at the form, independent of the
/// language:
///
/// * A numbered list, `1.`, `1)`, `(1)` or `1、`, counted from one.
/// * A list with `-`, `*`, `+` or `•`, if the task begins with it, or if a line that ends with a colon or a heading
///   introduces it. Checked items, `[x]`, are left out.
///
/// Code fences, quotations, text indented like code, and nested items are ignored. So are tasks with two lists, a
/// single item or more than fifty items, which are likely to be information or data rather than a plan. The form does
/// not show whether a list contains actions or facts: an application that knows its users' language can check that
/// first, as the example `planner_words` does.
///
/// ```
/// use deepagents::middleware::todo::ListPlanner;
/// let items = ListPlanner::items("Please:\n1. Read the report\n2. List its errors\n3. Mend them");
/// assert_eq!(items, ["Read the report", "List its errors", "Mend them"]);
/// assert!(ListPlanner::items("Read the report and mend its errors.").is_empty());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ListPlanner;

impl ListPlanner {
    /// Returns the items that a task lists, or none.
    pub fn items(task: &str) -> Vec<String> {
        let lines = lines(task);
        let mut lists: Vec<List> = lists(&lines).into_iter().filter(List::is_plan).collect();
        let items = match (lists.pop(), lists.is_empty()) {
            (Some(list), true) => list.items,
            // With two lists, it is unclear which is the plan.
            (Some(_), false) => return Vec::new(),
            (None, _) => return Vec::new(),
        };
        let items: Vec<String> = items.iter().filter_map(|item| normalize(item)).collect();
        if (FEWEST..=MAX_ITEMS).contains(&items.len()) { items } else { Vec::new() }
    }
}

impl Planner for ListPlanner {
    async fn plan(&self, task: &str, _cx: &Context) -> Result<Vec<String>, BoxError> {
        Ok(Self::items(task))
    }
}

/// Returns the number of items of the longest list in a text, whatever it is about.
pub(super) fn longest_list(text: &str) -> usize {
    lists(&lines(text)).iter().map(|list| list.items.len()).max().unwrap_or(0)
}

/// A list in a task.
struct List {
    numbered: bool,
    indent: usize,
    items: Vec<String>,
    /// The line before it; `None` at the beginning of the task.
    intro: Option<String>,
}

impl List {
    fn is_plan(&self) -> bool {
        let Some(intro) = &self.intro else { return self.items.len() >= FEWEST };
        self.items.len() >= FEWEST && (self.numbered || introduces(intro))
    }

    /// Returns `true` if an item continues this list.
    fn takes(&self, mark: ListMarker) -> bool {
        match mark {
            ListMarker::Number(n) => self.numbered && n == self.items.len() + 1,
            ListMarker::Bullet => !self.numbered,
        }
    }
}

/// Returns `true` if a line introduces what follows.
fn introduces(line: &str) -> bool {
    let bare = line.trim_end_matches(['*', '_', ' ']);
    line.starts_with('#') || bare.ends_with([':', '：'])
}

fn lists(lines: &[Line<'_>]) -> Vec<List> {
    let mut lists: Vec<List> = Vec::new();
    let mut open: Option<List> = None;
    let mut intro: Option<String> = None;
    for line in lines {
        match (*line, &mut open) {
            (Line::Item { indent, mark, text }, Some(list)) if list.takes(mark) && indent <= list.indent + 1 => {
                list.items.push(text.to_owned());
            }
            // Indented items, and bullets among numbers, belong to an item.
            (Line::Item { indent, mark, .. }, Some(list))
                if indent > list.indent + 1 || (list.numbered && mark == ListMarker::Bullet) => {}
            (Line::Item { indent, mark, text }, _) => {
                lists.extend(open.take());
                if mark != ListMarker::Bullet && mark != ListMarker::Number(1) {
                    continue;
                }
                let (numbered, items) = (mark != ListMarker::Bullet, vec![text.to_owned()]);
                // Only the first list can begin the task.
                let before = intro.replace(String::new());
                open = Some(List { numbered, indent, items, intro: before });
            }
            (Line::Text { indent, text }, list) => {
                let ends = |list: &List| indent <= list.indent && (!list.numbered || introduces(text));
                if list.as_ref().is_some_and(ends) {
                    lists.extend(list.take());
                }
                intro = Some(text.to_owned());
            }
        }
    }
    lists.extend(open);
    lists
}

/// Normalizes an item to one line without surrounding marks. Returns `None` if it has no words or is checked.
fn normalize(item: &str) -> Option<String> {
    let item = item.trim();
    if item.starts_with("[x]") || item.starts_with("[X]") {
        return None;
    }
    let item = item.strip_prefix("[ ]").unwrap_or(item);
    let item = one_line(item);
    let item = item.trim_end_matches(['.', '。', ';', '；', ',', '，', ' ']);
    if !item.chars().any(char::is_alphanumeric) {
        return None;
    }
    if item.chars().count() <= MAX_ITEM_CHARS {
        return Some(item.to_owned());
    }
    Some(item.chars().take(MAX_ITEM_CHARS - 1).chain(['…']).collect())
}
