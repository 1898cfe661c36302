//! Skills that the caller wants to show to the model in full.

use deepagents_core::message::Message;
use deepagents_core::run::Context;
use deepagents_fs::Backend;

use crate::channels::{PinnedSkills, Skill, SkillsMetadata};
use crate::front_matter;
use crate::text::truncated;
use crate::workspace::read_whole_text;

use super::load::MAX_BYTES;

/// Maximum number of characters of a pinned skill to show.
const MAX_CHARS: usize = 80_000;

/// Skills to show now.
#[derive(Default)]
pub(super) struct Pins {
    /// The pending names.
    pub(super) names: Vec<String>,
    /// The skills with their messages, which have ids.
    pub(super) shown: Vec<(Skill, Message)>,
    /// Unknown names and unreadable skills, with the reasons.
    pub(super) skipped: Vec<String>,
}

/// Returns what to show before the next model call.
pub(super) async fn take(cx: &Context, backend: &dyn Backend) -> Pins {
    let mut pins = Pins { names: cx.get::<PinnedSkills>(), ..Pins::default() };
    let mut seen = std::collections::HashSet::new();
    for name in &pins.names {
        if !seen.insert(name.as_str()) {
            continue;
        }
        let catalogue = cx.state().get::<SkillsMetadata>().and_then(Option::as_ref);
        let Some(skill) = catalogue.and_then(|catalogue| catalogue.get(name)) else {
            pins.skipped.push(format!("no skill is named `{name}`"));
            continue;
        };
        match read_whole_text(backend, cx.state(), &skill.path, MAX_BYTES).await {
            Ok(text) => {
                let mut message = Message::harness(show(skill, &text));
                message.set_id(cx.ids().next("msg"));
                pins.shown.push((skill.clone(), message));
            }
            Err(why) => pins.skipped.push(format!("{}: {why}", skill.path)),
        }
    }
    pins
}

fn show(skill: &Skill, text: &str) -> String {
    let body = front_matter::split(text).map_or(text, |(_, body)| body).trim();
    let shown = truncated(body, MAX_CHARS, &format!("\n[cut here; the rest is in {}]", skill.path));
    let (name, path) = (attribute(&skill.name), attribute(skill.path.as_str()));
    format!("<skill name=\"{name}\" path=\"{path}\">\n{shown}\n</skill>")
}

fn attribute(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}
