//! Answering what a tool or a server asks: a text, one of several, some of several, field by field.

use crossterm::event::{KeyCode, KeyEvent};
use deepagents::ActionRequest;
use serde_json::{Map, Value, json};

use crate::input::Editor;

/// A form, and the field that is filled in now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form {
    fields: Vec<Field>,
    at: usize,
    /// Whether the answer is the text of the only field, and no object of fields.
    is_text: bool,
}

/// A field.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// Its name in the answer, and for people.
    name: String,
    pub(crate) title: String,
    /// Whether it has to be filled in.
    required: bool,
    pub(crate) input: FieldInput,
}

/// What can be filled in.
#[derive(Clone, Debug)]
pub(crate) enum FieldInput {
    /// A text, or a number.
    Text { editor: Editor, number: bool },
    /// One of these.
    Choice { options: Vec<Value>, selected: usize },
    /// Some of these.
    Several { options: Vec<Value>, chosen: Vec<bool>, selected: usize },
}

/// What a key came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// It was taken.
    Taken,
    /// Back to the question.
    Left,
    /// Everything is filled in.
    Done(String),
    /// What was filled in does not do.
    Wrong(String),
}

impl Form {
    /// The form for a question: of the fields that it names at its end as JSON, or one for a text.
    pub(crate) fn of(request: &ActionRequest) -> Self {
        let described = request.text.rfind("fields, or reject: ").and_then(|at| {
            let (_, fields) = request.text.get(at..)?.split_once(": ")?;
            serde_json::from_str::<Map<String, Value>>(fields).ok()
        });
        let fields: Vec<Field> =
            described.unwrap_or_default().iter().map(|(name, schema)| Field::of(name, schema)).collect();
        if fields.is_empty() {
            let input = FieldInput::Text { editor: Editor::default(), number: false };
            let answer = Field { name: String::new(), title: "answer".to_owned(), required: true, input };
            return Self { fields: vec![answer], at: 0, is_text: true };
        }
        Self { fields, at: 0, is_text: false }
    }

    /// The field that is filled in now, its number and how many there are.
    pub(crate) fn current(&self) -> Option<(&Field, usize, usize)> {
        Some((self.fields.get(self.at)?, self.at + 1, self.fields.len()))
    }

    /// Text for the present field.
    pub(crate) fn paste(&mut self, text: &str) {
        if let Some(Field { input: FieldInput::Text { editor, .. }, .. }) = self.fields.get_mut(self.at) {
            editor.paste(text);
        }
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> Filled {
        if key.code == KeyCode::Esc {
            let Some(before) = self.at.checked_sub(1) else { return Filled::Left };
            self.at = before;
            return Filled::Taken;
        }
        let Some(field) = self.fields.get_mut(self.at) else { return Filled::Left };
        if key.code == KeyCode::Enter && key.modifiers.is_empty() {
            if let Err(problem) = field.value() {
                return Filled::Wrong(problem);
            }
            self.at += 1;
            if self.at < self.fields.len() {
                return Filled::Taken;
            }
            self.at -= 1;
            return Filled::Done(self.answer());
        }
        match &mut field.input {
            FieldInput::Text { editor, .. } => drop(editor.key(key)),
            FieldInput::Choice { options, selected } => step(key, options.len(), selected),
            FieldInput::Several { options, chosen, selected } => {
                if key.code == KeyCode::Char(' ') {
                    if let Some(one) = chosen.get_mut(*selected) {
                        *one = !*one;
                    }
                } else {
                    step(key, options.len(), selected);
                }
            }
        }
        Filled::Taken
    }

    /// The answer: the text, or an object of the fields that are filled in.
    fn answer(&self) -> String {
        let values = self.fields.iter().filter_map(|field| Some((field.name.clone(), field.value().ok()??)));
        if self.is_text {
            return values.map(|(_, value)| value.as_str().unwrap_or_default().to_owned()).collect();
        }
        Value::Object(values.collect()).to_string()
    }
}

fn step(key: KeyEvent, options: usize, selected: &mut usize) {
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

impl Field {
    /// The field that a schema describes.
    fn of(name: &str, schema: &Value) -> Self {
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let title = match (text("title"), text("description")) {
            (Some(title), Some(about)) => format!("{title} ({about})"),
            (Some(title), None) => title.to_owned(),
            (None, Some(about)) => format!("{name} ({about})"),
            (None, None) => name.to_owned(),
        };
        let options = |schema: &Value| schema.get("enum").and_then(Value::as_array).cloned();
        let of_items = schema.get("items").and_then(options);
        let kind = text("type").unwrap_or("string");
        let default = schema.get("default");
        let input = match (options(schema), of_items, kind) {
            (Some(options), ..) => {
                let selected = options.iter().position(|option| Some(option) == default).unwrap_or(0);
                FieldInput::Choice { options, selected }
            }
            (None, Some(options), _) => {
                let is_default =
                    |option: &Value| default.and_then(Value::as_array).is_some_and(|all| all.contains(option));
                let chosen = options.iter().map(is_default).collect();
                FieldInput::Several { options, chosen, selected: 0 }
            }
            (.., "boolean") => {
                let selected = usize::from(default != Some(&json!(true)));
                FieldInput::Choice { options: vec![json!(true), json!(false)], selected }
            }
            (.., kind) => {
                let mut editor = Editor::default();
                match default {
                    Some(Value::String(text)) => editor.set(text.as_str()),
                    Some(other) => editor.set(other.to_string()),
                    None => {}
                }
                FieldInput::Text { editor, number: matches!(kind, "number" | "integer") }
            }
        };
        Self { name: name.to_owned(), title, required: default.is_none(), input }
    }

    /// What is filled in; nothing where it is left out.
    fn value(&self) -> Result<Option<Value>, String> {
        match &self.input {
            FieldInput::Text { editor, .. } if editor.text().trim().is_empty() => match self.required {
                true if self.name.is_empty() => Err("the answer is empty; Esc goes back".to_owned()),
                // What a field may leave out its schema knows, and whoever asked checks.
                _ => Ok(None),
            },
            FieldInput::Text { editor, number: true } => {
                let text = editor.expanded();
                let number: Result<serde_json::Number, _> = serde_json::from_str(text.trim());
                number.map(|number| Some(number.into())).map_err(|_| format!("`{}` is no number", text.trim()))
            }
            FieldInput::Text { editor, .. } => Ok(Some(Value::String(editor.expanded()))),
            FieldInput::Choice { options, selected } => Ok(options.get(*selected).cloned()),
            FieldInput::Several { options, chosen, .. } => {
                let taken = options.iter().zip(chosen).filter(|(_, chosen)| **chosen).map(|(option, _)| option.clone());
                Ok(Some(Value::Array(taken.collect())))
            }
        }
    }
}
