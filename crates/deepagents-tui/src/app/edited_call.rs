//! Editing a call that needs a decision.

use deepagents::Decision;
use deepagents::core::interrupt::EditedAction;
use serde_json::Value;

use super::pending::{Questions, is_command};
use super::transcript::text_arg;

impl Questions {
    /// Returns the text to edit in place of the current call: the command or the arguments.
    pub(crate) fn editable(&self) -> Option<String> {
        let request = &self.current()?.request;
        Some(if is_command(&request.tool) {
            text_arg(&request.args, "command").to_owned()
        } else {
            serde_json::to_string_pretty(&request.args).unwrap_or_default()
        })
    }

    /// Returns the decision that an edited text makes.
    pub(crate) fn edited(&self, text: &str) -> Result<Decision, String> {
        let pending = self.current().ok_or("nothing is waiting any more")?;
        let request = &pending.request;
        let args = if is_command(&request.tool) {
            if text.trim().is_empty() {
                return Err("the command is empty".to_owned());
            }
            let mut args = request.args.clone();
            if let Some(args) = args.as_object_mut() {
                args.insert("command".to_owned(), Value::String(text.to_owned()));
            }
            args
        } else {
            serde_json::from_str(text).map_err(|error| format!("the arguments are not valid JSON: {error}"))?
        };
        let edited = EditedAction { name: request.tool.clone(), args };
        let taken = pending.tool.as_ref().map_or(Ok(()), |tool| request.check_edit(&edited, tool));
        let decision = Decision::Edit { edited_action: edited };
        let now = deepagents::core::env::Timestamp::now();
        request.check(&decision, now).and(taken).map_err(|error| error.to_string())?;
        Ok(decision)
    }
}
