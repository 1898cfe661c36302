//! The profiles that come with the library.

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
    let codex = || suffix(CODEX).extra(TodoList::default());
    BTreeMap::from([
        ("anthropic:claude-opus-4-7".to_owned(), suffix(format!("{CLAUDE}{CLAUDE_OPUS}"))),
        ("anthropic:claude-sonnet-4-6".to_owned(), suffix(CLAUDE)),
        ("anthropic:claude-haiku-4-5".to_owned(), suffix(CLAUDE)),
        ("openai:gpt-5.1-codex".to_owned(), codex()),
        ("openai:gpt-5.2-codex".to_owned(), codex()),
        ("openai:gpt-5.3-codex".to_owned(), codex()),
    ])
}
