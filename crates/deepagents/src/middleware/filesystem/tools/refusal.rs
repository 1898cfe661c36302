//! Identifies the rule that denied a call.

use std::any::Any;

use deepagents_fs::FsError;
use deepagents_fs::edit::EditError;
use deepagents_fs::shell::ShellError;

/// Returns a description of the rule that caused an error, if a rule did.
pub(super) fn rule_of(error: &dyn Any) -> Option<String> {
    if let Some(error) = error.downcast_ref::<FsError>() {
        return of_files(error);
    }
    if let Some(EditError::Fs(error)) = error.downcast_ref::<EditError>() {
        return of_files(error);
    }
    match error.downcast_ref::<ShellError>() {
        Some(ShellError::Denied { reason, .. }) => Some(format!("commands: {reason}")),
        _ => None,
    }
}

fn of_files(error: &FsError) -> Option<String> {
    match error {
        FsError::Denied { operation, rule, .. } => Some(format!("{operation} {rule}")),
        FsError::ReadOnly(path) => Some(format!("read-only: {}", path.quoted())),
        FsError::PartlyDeleted { source, .. } => of_files(source),
        FsError::Protected(path) => Some(format!("protected place: {}", path.quoted())),
        _ => None,
    }
}
