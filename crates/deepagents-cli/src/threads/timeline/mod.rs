//! `deepagents threads show --timeline`: what was done when, according to the log alone.

mod read;
mod view;

use anyhow::Result;
use deepagents::core::agent::ThreadAccess;
use deepagents::core::journal::ThreadInfo;

use crate::model_choice::catalogue;
use crate::render::json_text;
use crate::render::style::printable;

/// Shows each run of a thread as a waterfall.
pub(super) async fn timeline(threads: &ThreadAccess, info: &ThreadInfo, as_json: bool) -> Result<String> {
    let timeline = read::Timeline::of(threads, info, &catalogue()?).await?;
    if as_json {
        return Ok(json_text(&timeline.parts)?);
    }
    Ok(printable(&view::text(info, &timeline)).into_owned())
}
