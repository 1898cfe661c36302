//! Assembles the tool calls of a response from their pieces.

use deepagents_core::model::ModelEvent;
use serde_json::{Map, Value};

use super::decode::MessageDecoder;
use super::part::{Call, Part};
use crate::json::whole_number;

impl MessageDecoder {
    /// Processes a call or a piece of one. Servers differ in what they repeat: index, ID, both or neither.
    pub(super) fn call(&mut self, position: usize, mut delta: Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let id = take_text(&mut delta, "id");
        let index = if self.plain { Some(position as u64) } else { delta.get("index").and_then(whole_number) };
        delta.remove("index");
        if delta.get("type").is_some_and(|kind| kind == "function") {
            delta.remove("type");
        }
        // A custom call, whose input is free text.
        let custom = delta.remove("custom");
        let (mut function, is_custom) = match (delta.remove("function"), custom) {
            (Some(Value::Object(function)), _) => (function, false),
            (_, Some(Value::Object(custom))) => (custom, true),
            _ => (Map::new(), false),
        };
        if is_custom {
            delta.remove("type");
        }
        let name = take_text(&mut function, "name");
        let more = match function.remove(if is_custom { "input" } else { "arguments" }) {
            Some(Value::String(text)) => text,
            None | Some(Value::Null) => String::new(),
            // Should be an object; anything else is rejected when the call is parsed.
            Some(other) => other.to_string(),
        };
        // Servers without indices send each call whole, with its name.
        let is_whole = |call: &Call| serde_json::from_str::<Map<String, Value>>(&call.raw).is_ok();
        let may_be_next = id.is_empty() && !name.is_empty() && !more.is_empty();
        let found = self.parts.iter().rposition(|part| match part {
            Part::Call(call) => match index {
                // A new ID with a known index is another call, if it has a name.
                Some(_) if call.index == index => {
                    let is_next = may_be_next && !call.name.is_empty() && is_whole(call);
                    !is_next && (id.is_empty() || call.id.is_empty() || call.id == id || name.is_empty())
                }
                Some(_) => false,
                None if id.is_empty() => name.is_empty(),
                None => call.id == id,
            },
            _ => false,
        });
        function.retain(|_, value| !value.is_null());
        delta.retain(|_, value| !value.is_null());
        let says_nothing = [&id, &name, &more].iter().all(|text| text.is_empty());
        if found.is_none() && says_nothing && index.is_none() && function.is_empty() && delta.is_empty() {
            return;
        }
        let block = found.unwrap_or(self.parts.len());
        if found.is_none() {
            self.parts.push(Part::Call(Call { index, ..Call::default() }));
        }
        let Some(Part::Call(call)) = self.parts.get_mut(block) else { return };
        call.is_custom |= is_custom;
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        call.raw.push_str(&more);
        call.function.extend(function);
        call.fields.extend(delta);
        if call.announced {
            out.push(ModelEvent::ToolArgs { block, delta: more });
        } else if !call.name.is_empty() {
            call.announced = true;
            out.push(ModelEvent::ToolCall { block, id: call.id.clone(), name: call.name.clone() });
            if !call.raw.is_empty() {
                out.push(ModelEvent::ToolArgs { block, delta: call.raw.clone() });
            }
        }
    }
}

fn take_text(map: &mut Map<String, Value>, key: &str) -> String {
    match map.remove(key) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}
