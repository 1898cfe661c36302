//! A field of a form: a text, a single choice or a multiple choice.

use crossterm::event::{KeyCode, KeyEvent};
use deepagents::{FieldKind, FieldOption, FormField};
use serde_json::{Value, json};

use crate::input::Editor;

/// A field.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// Its name in the answer, and its label.
    pub(super) name: String,
    pub(crate) title: String,
    /// Whether it must be completed.
    pub(super) required: bool,
    pub(crate) input: FieldInput,
}

/// The input of a field.
#[derive(Clone, Debug)]
pub(crate) enum FieldInput {
    /// A text or a number.
    Text { editor: Editor, number: bool },
    /// A single choice.
    Choice { options: Vec<Choosable>, selected: usize },
    /// A multiple choice.
    Several { options: Vec<Choosable>, chosen: Vec<bool>, selected: usize },
}

/// An option: its value in the answer, and its label.
#[derive(Clone, Debug)]
pub(crate) struct Choosable {
    pub(super) value: Value,
    pub(crate) label: String,
}

impl Choosable {
    pub(super) fn new(value: Value, label: &str) -> Self {
        Self { value, label: label.to_owned() }
    }
}

/// Marks another option.
pub(super) fn step(key: KeyEvent, options: usize, selected: &mut usize) {
    match key.code {
        KeyCode::Up | KeyCode::Char('k') => *selected = selected.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => *selected = (*selected + 1).min(options.saturating_sub(1)),
        KeyCode::Char(c) => {
            let number = c.to_digit(10).and_then(|digit| usize::try_from(digit).ok()).and_then(|n| n.checked_sub(1));
            *selected = number.filter(|number| *number < options).unwrap_or(*selected);
        }
        _ => {}
    }
}

impl From<&FormField> for Field {
    fn from(field: &FormField) -> Self {
        let text = |default: Option<String>, number| FieldInput::Text {
            editor: Editor::with_text(default.unwrap_or_default()),
            number,
        };
        let choosable = |options: &[FieldOption]| -> Vec<Choosable> {
            options.iter().map(|option| Choosable::new(json!(option.value), option.label())).collect()
        };
        let input = match &field.kind {
            FieldKind::Number { default, .. } => text(default.as_ref().map(ToString::to_string), true),
            FieldKind::Boolean { default } => {
                let options = vec![Choosable::new(json!(true), "yes"), Choosable::new(json!(false), "no")];
                FieldInput::Choice { options, selected: usize::from(*default != Some(true)) }
            }
            FieldKind::Choice { options, default } => {
                let is_default = |option: &FieldOption| Some(&option.value) == default.as_ref();
                let selected = options.iter().position(is_default).unwrap_or(0);
                FieldInput::Choice { options: choosable(options), selected }
            }
            FieldKind::Several { options, default } => {
                let chosen = options.iter().map(|option| default.contains(&option.value)).collect();
                FieldInput::Several { options: choosable(options), chosen, selected: 0 }
            }
            FieldKind::Text { default } => text(default.clone(), false),
            // An unknown kind of field is a text field.
            _ => text(None, false),
        };
        Self { name: field.name.clone(), title: field.label(), required: field.required, input }
    }
}

impl Field {
    /// Creates a text field, with a label that may be empty.
    pub(super) fn words(title: &str) -> Self {
        let input = FieldInput::Text { editor: Editor::default(), number: false };
        Self { name: String::new(), title: title.to_owned(), required: true, input }
    }

    /// Returns the indices of the chosen options.
    pub(super) fn chosen(&self) -> Vec<usize> {
        match &self.input {
            FieldInput::Text { .. } => Vec::new(),
            FieldInput::Choice { selected, .. } => vec![*selected],
            FieldInput::Several { chosen, .. } => (0..).zip(chosen).filter(|(_, is)| **is).map(|(at, _)| at).collect(),
        }
    }

    /// Returns the value, or `None` if an optional field is empty.
    pub(super) fn value(&self) -> Result<Option<Value>, String> {
        match &self.input {
            FieldInput::Text { editor, .. } if editor.text().trim().is_empty() => match self.required {
                true if self.name.is_empty() => Err("the answer is empty".to_owned()),
                true => Err("this is required".to_owned()),
                false => Ok(None),
            },
            FieldInput::Text { editor, number: true } => {
                let text = editor.expanded();
                let number: Result<serde_json::Number, _> = serde_json::from_str(text.trim());
                number.map(|number| Some(number.into())).map_err(|_| format!("`{}` is not a number", text.trim()))
            }
            FieldInput::Text { editor, .. } => Ok(Some(Value::String(editor.expanded()))),
            FieldInput::Choice { options, selected } => Ok(options.get(*selected).map(|option| option.value.clone())),
            FieldInput::Several { options, chosen, .. } => {
                let taken = options.iter().zip(chosen).filter(|(_, chosen)| **chosen);
                Ok(Some(Value::Array(taken.map(|(option, _)| option.value.clone()).collect())))
            }
        }
    }
}
