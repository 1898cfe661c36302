//! The built-in profiles.

use std::collections::BTreeMap;

use super::{HarnessProfile, ProfileConfig};
use crate::middleware::TodoList;

const CLAUDE: &str = include_str!("../prompts/profile_claude.md");
const CLAUDE_OPUS: &str = include_str!("../prompts/profile_claude_opus.md");
const CODEX: &str = include_str!("../prompts/profile_codex.md");

fn suffix(text: impl Into<String>) -> HarnessProfile {
    let text: String = text.into();
    ProfileConfig { system_prompt_suffix: Some(text.trim_end().to_owned()), ..ProfileConfig::default() }.into()
}

pub(super) fn all() -> BTreeMap<String, HarnessProfile> {
    BTreeMap::from([
        ("anthropic:claude-*".to_owned(), suffix(CLAUDE)),
        ("anthropic:claude-opus-*".to_owned(), suffix(format!("{CLAUDE}{CLAUDE_OPUS}"))),
        ("openai:gpt-*-codex*".to_owned(), suffix(CODEX).extra(TodoList::default())),
    ])
}
