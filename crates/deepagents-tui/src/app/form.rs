//! Answering what the agent, a tool or a server asks: a text, one of several, some of several, field by field.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use deepagents::{ActionRequest, AnswerForm, FieldKind, FieldOption, FormField};
use serde_json::{Map, Value, json};

use crate::input::Editor;

/// What is chosen to answer in other words than those of the choices.
pub(crate) const OWN_WORDS: &str = "something else, in your own words";

/// A form, and the field that is filled in now.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    answer: AnswerKind,
    fields: Vec<Field>,
    at: usize,
    /// Whether something was chosen or marked.
    is_touched: bool,
}

/// What is made of the fields.
#[derive(Clone, Debug)]
enum AnswerKind {
    /// The text of the only field.
    Words,
    /// The words or numbers of what is chosen in the first field; the text of the second where it is own words.
    Choices(AnswerForm),
    /// An object of the fields that are filled in.
    Object,
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
    Choice { options: Vec<Choosable>, selected: usize },
    /// Some of these.
    Several { options: Vec<Choosable>, chosen: Vec<bool>, selected: usize },
}

/// An option: its value in the answer, and its words.
#[derive(Clone, Debug)]
pub(crate) struct Choosable {
    value: Value,
    pub(crate) label: String,
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
    /// The form for a question, which is one for a text where the question has none.
    pub(crate) fn of(request: &ActionRequest) -> Self {
        match &request.form {
            Some(AnswerForm::Fields { fields }) if !fields.is_empty() => Self {
                answer: AnswerKind::Object,
                fields: fields.iter().map(Field::from).collect(),
                at: 0,
                is_touched: false,
            },
            Some(form @ AnswerForm::Choices { choices, several }) => {
                let words = choices.iter().map(String::as_str).chain([OWN_WORDS]);
                let options: Vec<Choosable> =
                    words.map(|label| Choosable { value: Value::Null, label: label.to_owned() }).collect();
                let input = match several {
                    true => FieldInput::Several { chosen: vec![false; options.len()], options, selected: 0 },
                    false => FieldInput::Choice { options, selected: 0 },
                };
                let choice = Field { name: String::new(), title: String::new(), required: true, input };
                Self {
                    answer: AnswerKind::Choices(form.clone()),
                    fields: vec![choice, Field::words("in your own words")],
                    at: 0,
                    is_touched: false,
                }
            }
            _ => Self { answer: AnswerKind::Words, fields: vec![Field::words("")], at: 0, is_touched: false },
        }
    }

    /// The field that is filled in now, its number and how many there are.
    pub(crate) fn current(&self) -> Option<(&Field, usize, usize)> {
        let count = match self.answer {
            AnswerKind::Choices(_) => 1,
            AnswerKind::Words | AnswerKind::Object => self.fields.len(),
        };
        Some((self.fields.get(self.at)?, self.at + 1, count))
    }

    /// Whether one of the answers that a question offers is chosen now.
    pub(crate) fn is_choosing(&self) -> bool {
        self.at == 0 && matches!(self.answer, AnswerKind::Choices(_))
    }

    /// Whether own words are what is marked among these answers: what is typed or pasted then begins them.
    pub(crate) fn is_own_marked(&self) -> bool {
        let last = |options: &[Choosable], selected: usize| selected + 1 == options.len();
        self.is_choosing()
            && match self.fields.first().map(|field| &field.input) {
                Some(FieldInput::Choice { options, selected } | FieldInput::Several { options, selected, .. }) => {
                    last(options, *selected)
                }
                _ => false,
            }
    }

    /// Goes to the field for own words.
    fn begin_own_words(&mut self) {
        if let Some(Field { input: FieldInput::Several { chosen, .. }, .. }) = self.fields.first_mut()
            && let Some(own) = chosen.last_mut()
        {
            *own = true;
        }
        self.at = 1;
    }

    /// Whether a key chooses among these answers. Enter sends what stands in the input, unless something was chosen.
    pub(crate) fn chooses(&self, key: KeyEvent, input_is_empty: bool) -> bool {
        let several = matches!(self.fields.first().map(|field| &field.input), Some(FieldInput::Several { .. }));
        match key.code {
            KeyCode::Char(c) if self.writes_own_words(c, key) => true,
            _ if !key.modifiers.is_empty() => false,
            KeyCode::Up | KeyCode::Down => true,
            KeyCode::Enter => input_is_empty || self.is_touched,
            // A blank is no message that is begun.
            KeyCode::Char(' ') => several || input_is_empty,
            KeyCode::Char(c) => c.is_ascii_digit() || matches!(c, 'j' | 'k'),
            _ => false,
        }
    }

    /// Whether a letter is the first one of own words. Where several may be taken, a blank takes what is marked.
    fn writes_own_words(&self, c: char, key: KeyEvent) -> bool {
        let several = matches!(self.fields.first().map(|field| &field.input), Some(FieldInput::Several { .. }));
        let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        plain && self.is_own_marked() && (c != ' ' || !several)
    }

    /// Whether a text is written in the present field, or begins own words.
    pub(crate) fn takes_text(&self) -> bool {
        let input = self.fields.get(self.at).map(|field| &field.input);
        self.is_own_marked() || matches!(input, Some(FieldInput::Text { .. }))
    }

    /// The text that is written in the present field.
    pub(crate) fn written(&mut self) -> Option<&mut Editor> {
        match self.fields.get_mut(self.at) {
            Some(Field { input: FieldInput::Text { editor, .. }, .. }) => Some(editor),
            _ => None,
        }
    }

    /// Text for the present field.
    pub(crate) fn paste(&mut self, text: &str) {
        if self.is_own_marked() {
            self.begin_own_words();
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
            && self.writes_own_words(c, key)
        {
            self.begin_own_words();
        }
        let Some(field) = self.fields.get_mut(self.at) else { return Filled::Left };
        if key.code == KeyCode::Enter && key.modifiers.is_empty() {
            return self.go_on();
        }
        // Where one is taken it is the one that is marked.
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

    /// To the next field, or to the answer.
    fn go_on(&mut self) -> Filled {
        if let Some(Err(problem)) = self.fields.get(self.at).map(Field::value) {
            return Filled::Wrong(problem);
        }
        if let AnswerKind::Choices(form) = &self.answer
            && self.at == 0
        {
            let chosen = self.fields.first().map(Field::chosen).unwrap_or_default();
            let count = match form {
                AnswerForm::Choices { choices, .. } => choices.len(),
                _ => 0,
            };
            if chosen.is_empty() {
                return Filled::Wrong("nothing is chosen; Space takes what is marked".to_owned());
            }
            if chosen.contains(&count) {
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

    /// The answer: the text, or an object of the fields that are filled in.
    fn answer(&self) -> String {
        let value = |field: &Field| field.value().ok().flatten();
        if let AnswerKind::Object = self.answer {
            let values: Map<String, Value> =
                self.fields.iter().filter_map(|field| Some((field.name.clone(), value(field)?))).collect();
            return Value::Object(values).to_string();
        }
        let words = self.fields.last().and_then(value);
        words.and_then(|words| Some(words.as_str()?.to_owned())).unwrap_or_default()
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

impl From<&FormField> for Field {
    fn from(field: &FormField) -> Self {
        let text = |default: Option<String>, number| {
            let mut editor = Editor::default();
            if let Some(default) = default {
                editor.set(default);
            }
            FieldInput::Text { editor, number }
        };
        let choosable = |options: &[FieldOption]| -> Vec<Choosable> {
            let option =
                |option: &FieldOption| Choosable { value: json!(option.value), label: option.label().to_owned() };
            options.iter().map(option).collect()
        };
        let input = match &field.kind {
            FieldKind::Number { default, .. } => text(default.as_ref().map(ToString::to_string), true),
            FieldKind::Boolean { default } => {
                let option = |value: bool, label: &str| Choosable { value: json!(value), label: label.to_owned() };
                let selected = usize::from(*default != Some(true));
                FieldInput::Choice { options: vec![option(true, "yes"), option(false, "no")], selected }
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
            // A kind that this version does not know is a text.
            _ => text(None, false),
        };
        Self { name: field.name.clone(), title: field.label(), required: field.required, input }
    }
}

impl Field {
    /// A field for words, with what people call it where that says something.
    fn words(title: &str) -> Self {
        let input = FieldInput::Text { editor: Editor::default(), number: false };
        Self { name: String::new(), title: title.to_owned(), required: true, input }
    }

    /// The places of what is chosen.
    fn chosen(&self) -> Vec<usize> {
        match &self.input {
            FieldInput::Text { .. } => Vec::new(),
            FieldInput::Choice { selected, .. } => vec![*selected],
            FieldInput::Several { chosen, .. } => {
                chosen.iter().enumerate().filter(|(_, chosen)| **chosen).map(|(at, _)| at).collect()
            }
        }
    }

    /// What is filled in; nothing where it is left out.
    fn value(&self) -> Result<Option<Value>, String> {
        match &self.input {
            FieldInput::Text { editor, .. } if editor.text().trim().is_empty() => match self.required {
                true if self.name.is_empty() => Err("the answer is empty".to_owned()),
                true => Err("this has to be filled in".to_owned()),
                false => Ok(None),
            },
            FieldInput::Text { editor, number: true } => {
                let text = editor.expanded();
                let number: Result<serde_json::Number, _> = serde_json::from_str(text.trim());
                number.map(|number| Some(number.into())).map_err(|_| format!("`{}` is no number", text.trim()))
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
