//! Questions as ACP forms.

use deepagents::{AnswerForm, FieldKind, FieldOption, FormField};
use serde_json::{Map, Value};

use super::EditorError;
use crate::wire::{self, ElicitationPropertySchema as Property};

/// Field of a free-text answer.
const ANSWER: &str = "answer";
/// Field of the chosen options.
const CHOICE: &str = "choice";
/// Field of an answer that is not among the options.
const OTHER: &str = "other";

/// A form field: its name, its schema, and whether it is required.
type FormProperty = (String, Property, bool);

/// The outcome of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FormAnswer {
    /// It was submitted.
    Text(String),
    /// The person declined.
    Declined,
    /// The person closed it without an answer.
    Closed,
}

/// Builds the request that shows a question as a form. Restores the order of the fields, which the protocol crate's
/// types lose.
///
/// # Errors
/// Returns an error if the request cannot be serialised.
pub(super) fn request(
    scope: wire::ElicitationSessionScope,
    question: &str,
    form: Option<&AnswerForm>,
) -> Result<wire::UntypedMessage, wire::Error> {
    let properties = properties(form);
    let names: Vec<String> = properties.iter().map(|(name, ..)| name.clone()).collect();
    let schema = properties.into_iter().fold(wire::ElicitationSchema::new(), |schema, (name, property, required)| {
        schema.property(name, property, required)
    });
    let request = wire::CreateElicitationRequest::new(wire::ElicitationFormMode::new(scope, schema), question);
    let mut message = wire::UntypedMessage::new("elicitation/create", request)?;
    if let Some(listed) = message.params.pointer_mut("/requestedSchema/properties").and_then(Value::as_object_mut) {
        let mut by_name = std::mem::take(listed);
        listed.extend(names.into_iter().filter_map(|name| by_name.remove_entry(&name)));
    }
    Ok(message)
}

fn properties(form: Option<&AnswerForm>) -> Vec<FormProperty> {
    match form {
        // A form without fields is only confirmed.
        Some(AnswerForm::Fields { fields }) => fields.iter().map(field).collect(),
        Some(AnswerForm::Choices { choices, several }) => {
            let choice: Property = match several {
                true => wire::MultiSelectPropertySchema::new(choices.clone()).title("Answers".to_owned()).into(),
                false => {
                    wire::StringPropertySchema::new().enum_values(choices.clone()).title("Answer".to_owned()).into()
                }
            };
            let other = wire::StringPropertySchema::new().title("Something else, in your own words".to_owned());
            vec![(CHOICE.to_owned(), choice, false), (OTHER.to_owned(), other.into(), false)]
        }
        // An unknown kind of form is answered with a text.
        _ => vec![(ANSWER.to_owned(), wire::StringPropertySchema::new().into(), true)],
    }
}

fn field(field: &FormField) -> FormProperty {
    let (title, about) = (field.title.clone(), field.description.clone());
    let property: Property = match &field.kind {
        FieldKind::Number { integer: true, default } => {
            let default = default.as_ref().and_then(serde_json::Number::as_i64);
            wire::IntegerPropertySchema::new().title(title).description(about).default_value(default).into()
        }
        FieldKind::Number { default, .. } => {
            let default = default.as_ref().and_then(serde_json::Number::as_f64);
            wire::NumberPropertySchema::new().title(title).description(about).default_value(default).into()
        }
        FieldKind::Boolean { default } => {
            wire::BooleanPropertySchema::new().title(title).description(about).default_value(*default).into()
        }
        FieldKind::Choice { options, default } => {
            let text = wire::StringPropertySchema::new().one_of(titled(options));
            text.title(title).description(about).default_value(default.clone()).into()
        }
        FieldKind::Several { options, default } => {
            let several = wire::MultiSelectPropertySchema::titled(titled(options));
            let default = (!default.is_empty()).then(|| default.clone());
            several.title(title).description(about).default_value(default).into()
        }
        FieldKind::Text { default } => {
            wire::StringPropertySchema::new().title(title).description(about).default_value(default.clone()).into()
        }
        // An unknown kind of field is a text field.
        _ => wire::StringPropertySchema::new().title(title).description(about).into(),
    };
    (field.name.clone(), property, field.required)
}

fn titled(options: &[FieldOption]) -> Vec<wire::EnumOption> {
    options.iter().map(|option| wire::EnumOption::new(&option.value, option.label())).collect()
}

/// Parses the editor's response.
///
/// # Errors
/// Returns an error if the response does not follow the protocol.
pub(super) fn answer(response: &Value, form: Option<&AnswerForm>) -> Result<FormAnswer, EditorError> {
    Ok(match response.get("action").and_then(Value::as_str) {
        Some("accept") => {
            let none = Map::new();
            FormAnswer::Text(filled_in(response.get("content").and_then(Value::as_object).unwrap_or(&none), form))
        }
        Some("decline") => FormAnswer::Declined,
        Some("cancel") => FormAnswer::Closed,
        _ => return Err(EditorError::Odd("the answer to a form must be accept, decline or cancel".to_owned())),
    })
}

/// Converts the submitted fields to text, as [`AnswerForm`] describes.
fn filled_in(content: &Map<String, Value>, form: Option<&AnswerForm>) -> String {
    let text = |name: &str| content.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    match form {
        Some(AnswerForm::Fields { fields }) => {
            let named = fields.iter().filter_map(|field| content.get_key_value(&field.name));
            let values = named.filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), value.clone()));
            Value::Object(values.collect()).to_string()
        }
        Some(form @ AnswerForm::Choices { choices, .. }) => {
            let other = text(OTHER);
            if !other.trim().is_empty() {
                return other;
            }
            let at = |chosen: &Value| choices.iter().position(|choice| Some(choice.as_str()) == chosen.as_str());
            let chosen = match content.get(CHOICE) {
                Some(Value::Array(chosen)) => chosen.iter().filter_map(at).collect(),
                chosen => chosen.and_then(at).into_iter().collect::<Vec<_>>(),
            };
            form.choose(&chosen)
        }
        _ => text(ANSWER),
    }
}
