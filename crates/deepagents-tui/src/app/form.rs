//! Forms for questions from the agent, a tool or a server: free text, single or multiple choice, or several fields.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use deepagents::{ActionRequest, AnswerForm};
use serde_json::{Map, Value};

use super::field::{Choosable, Field, FieldInput, step};
use crate::input::Editor;

/// The option to answer in other words than those offered.
pub(crate) const OWN_WORDS: &str = "something else, in your own words";

/// A form and its current field.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    answer: AnswerKind,
    fields: Vec<Field>,
    at: usize,
    /// Whether the user has moved the selection or marked an option.
    is_touched: bool,
}

/// How the answer is built from the fields.
#[derive(Clone, Debug)]
enum AnswerKind {
    /// The text of the only field.
    Words,
    /// The choice in the first field, or the text of the second if the user answers in other words.
    Choices(AnswerForm),
    /// An object of the completed fields.
    Object,
}

/// The result of a key press.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// The key was handled.
    Taken,
    /// The user leaves the form.
    Left,
    /// The form is complete. Holds the answer.
    Done(String),
    /// The input is invalid. Holds the reason.
    Wrong(String),
}

impl Form {
    /// Builds the form for a question. A question without a form gets a text field.
    pub(crate) fn of(request: &ActionRequest) -> Self {
        match &request.form {
            Some(AnswerForm::Fields { fields }) if !fields.is_empty() => {
                Self::new(AnswerKind::Object, fields.iter().map(Field::from).collect())
            }
            Some(form @ AnswerForm::Choices { choices, several }) => {
                let words = choices.iter().map(String::as_str).chain([OWN_WORDS]);
                let options: Vec<Choosable> = words.map(|label| Choosable::new(Value::Null, label)).collect();
                let input = match several {
                    true => FieldInput::Several { chosen: vec![false; options.len()], options, selected: 0 },
                    false => FieldInput::Choice { options, selected: 0 },
                };
                let choice = Field { input, ..Field::words("") };
                Self::new(AnswerKind::Choices(form.clone()), vec![choice, Field::words("in your own words")])
            }
            _ => Self::new(AnswerKind::Words, vec![Field::words("")]),
        }
    }

    fn new(answer: AnswerKind, fields: Vec<Field>) -> Self {
        Self { answer, fields, at: 0, is_touched: false }
    }

    /// Returns the current field, its number and the number of fields.
    pub(crate) fn current(&self) -> Option<(&Field, usize, usize)> {
        let count = match self.answer {
            AnswerKind::Choices(_) => 1,
            AnswerKind::Words | AnswerKind::Object => self.fields.len(),
        };
        Some((self.fields.get(self.at)?, self.at + 1, count))
    }

    /// Returns whether the user is choosing one of the offered answers.
    pub(crate) fn is_choosing(&self) -> bool {
        self.at == 0 && matches!(self.answer, AnswerKind::Choices(_))
    }

    /// Returns whether the option for an answer in other words is selected. Text typed or pasted then begins that
    /// answer.
    pub(crate) fn is_own_marked(&self) -> bool {
        self.is_choosing()
            && match self.fields.first().map(|field| &field.input) {
                Some(FieldInput::Choice { options, selected } | FieldInput::Several { options, selected, .. }) => {
                    selected + 1 == options.len()
                }
                _ => false,
            }
    }

    /// Returns whether several of the offered answers can be chosen.
    fn has_several(&self) -> bool {
        matches!(self.fields.first().map(|field| &field.input), Some(FieldInput::Several { .. }))
    }

    /// Moves to the field for an answer in other words.
    fn focus_own_answer(&mut self) {
        if let Some(Field { input: FieldInput::Several { chosen, .. }, .. }) = self.fields.first_mut()
            && let Some(own) = chosen.last_mut()
        {
            *own = true;
        }
        self.at = 1;
    }

    /// Returns whether a key chooses among the offered answers. Enter sends the text in the input instead, unless the
    /// form has been touched.
    pub(crate) fn chooses(&self, key: KeyEvent, input_is_empty: bool) -> bool {
        match key.code {
            KeyCode::Char(c) if self.begins_own_answer(c, key) => true,
            _ if !key.modifiers.is_empty() => false,
            KeyCode::Up | KeyCode::Down => true,
            KeyCode::Enter => input_is_empty || self.is_touched,
            // A message does not begin with a space.
            KeyCode::Char(' ') => self.has_several() || input_is_empty,
            KeyCode::Char(c) => c.is_ascii_digit() || matches!(c, 'j' | 'k'),
            _ => false,
        }
    }

    /// Returns whether a character begins an answer in other words. In a multiple choice, Space marks the selected
    /// option instead.
    fn begins_own_answer(&self, c: char, key: KeyEvent) -> bool {
        let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        plain && self.is_own_marked() && (c != ' ' || !self.has_several())
    }

    /// Returns whether the current field accepts text, or text begins an answer in other words.
    pub(crate) fn takes_text(&self) -> bool {
        let input = self.fields.get(self.at).map(|field| &field.input);
        self.is_own_marked() || matches!(input, Some(FieldInput::Text { .. }))
    }

    /// Returns the editor of the current field.
    pub(crate) fn written(&mut self) -> Option<&mut Editor> {
        match self.fields.get_mut(self.at) {
            Some(Field { input: FieldInput::Text { editor, .. }, .. }) => Some(editor),
            _ => None,
        }
    }

    /// Pastes text into the current field.
    pub(crate) fn paste(&mut self, text: &str) {
        if self.is_own_marked() {
            self.focus_own_answer();
        }
        if let Some(editor) = self.written() {
            editor.paste(text);
        }
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> Filled {
        if key.code == KeyCode::Esc {
            let Some(before) = self.at.checked_sub(1) else { return Filled::Left };
            self.at = before;
            return Filled::Taken;
        }
        if let KeyCode::Char(c) = key.code
            && self.begins_own_answer(c, key)
        {
            self.focus_own_answer();
        }
        let Some(field) = self.fields.get_mut(self.at) else { return Filled::Left };
        if key.code == KeyCode::Enter && key.modifiers.is_empty() {
            return self.next_field();
        }
        // In a single choice, the selected option is the answer.
        if key.code == KeyCode::Char(' ') && matches!(field.input, FieldInput::Choice { .. }) {
            return Filled::Taken;
        }
        self.is_touched = true;
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

    /// Moves to the next field, or completes the form.
    fn next_field(&mut self) -> Filled {
        if let Some(Err(problem)) = self.fields.get(self.at).map(Field::value) {
            return Filled::Wrong(problem);
        }
        if let AnswerKind::Choices(form) = &self.answer
            && self.at == 0
        {
            let chosen = self.fields.first().map(Field::chosen).unwrap_or_default();
            if chosen.is_empty() {
                return Filled::Wrong("nothing is chosen; press Space to choose the marked one".to_owned());
            }
            // The option after those of the question is the answer in other words.
            if matches!(form, AnswerForm::Choices { choices, .. } if chosen.contains(&choices.len())) {
                self.at = 1;
                return Filled::Taken;
            }
            return Filled::Done(form.choose(&chosen));
        }
        if self.at + 1 < self.fields.len() {
            self.at += 1;
            return Filled::Taken;
        }
        Filled::Done(self.answer())
    }

    /// Returns the answer: the text, or an object of the completed fields.
    fn answer(&self) -> String {
        let value = |field: &Field| field.value().ok().flatten();
        if let AnswerKind::Object = self.answer {
            let values: Map<String, Value> =
                self.fields.iter().filter_map(|field| Some((field.name.clone(), value(field)?))).collect();
            return Value::Object(values).to_string();
        }
        self.fields.last().and_then(value).and_then(|words| Some(words.as_str()?.to_owned())).unwrap_or_default()
    }
}
