//! Notices that are not tool calls: messages of hooks, server problems, compactions and the plan.

use deepagents::channels::{TodoUpdate, Todos};
use deepagents::middleware::rubric;
use deepagents::{Channel, MiddlewareEvent};
use serde::Deserialize;
use serde_json::Value;

use super::Presenter;
use crate::show::calls;
use crate::wire;

impl Presenter<'_> {
    /// Shows the message of a hook.
    fn hook(&self, message: &str, broken: bool) {
        let severity = if broken { wire::NoticeSeverity::Warning } else { wire::NoticeSeverity::Info };
        if !message.is_empty() && !self.editor.notice(severity, message, None) {
            self.remark(message);
        }
    }

    /// Shows a message in the conversation, if the editor has no other place for it.
    fn remark(&self, message: &str) {
        self.editor.say(format!("\n> {message}\n\n"));
    }

    fn compacted(&mut self, run: &str, failure: Option<&str>) {
        self.compactions += 1;
        self.editor.compacted(format!("{run}/{}", self.compactions), failure);
    }

    /// Shows middleware events that matter to a person.
    pub(super) fn middleware(&mut self, run: &str, happened: &MiddlewareEvent) {
        match happened {
            MiddlewareEvent::ConversationCompacted { .. } => self.compacted(run, None),
            MiddlewareEvent::CompactionFailed { error } => self.compacted(run, Some(error)),
            MiddlewareEvent::Hook { message, error, .. } => self.hook(message, error.is_some()),
            MiddlewareEvent::RubricEvaluated { .. } | MiddlewareEvent::RubricEvaluationFailed { .. } => {
                rubric::notice(happened).iter().for_each(|notice| self.hook(notice, false));
            }
            MiddlewareEvent::McpServer { server, problem: Some(problem), starting, .. } => {
                let title = format!("MCP server {server}");
                let severity = if *starting { wire::NoticeSeverity::Info } else { wire::NoticeSeverity::Warning };
                // A passing state does not belong in the model's output.
                if !self.editor.notice(severity, &title, Some(problem.clone())) && !starting {
                    // The problem names the server.
                    self.remark(problem);
                }
            }
            _ => {}
        }
    }

    pub(super) fn todos_changed(&mut self, update: &Value) {
        let mut list = self.todos.clone();
        let read = TodoUpdate::deserialize(update).ok();
        if read.is_some_and(|update| Todos::reduce(&mut list, update).is_ok()) {
            self.editor.update(calls::plan(&list));
            self.todos = list;
        }
    }
}
