//! The channel of results that were too large to show.

use std::collections::BTreeMap;

use deepagents_core::state::{Channel, ChannelError, Sharing};
use deepagents_fs::VPath;

/// The files of results that were too large to show, by the provider's call id. A provider may reuse an id.
#[derive(Debug)]
pub(crate) struct StoredResults;

impl Channel for StoredResults {
    const NAME: &'static str = "stored_results";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    type Value = BTreeMap<String, Vec<VPath>>;
    type Update = (String, VPath);

    fn reduce(value: &mut Self::Value, (call, path): Self::Update) -> Result<(), ChannelError> {
        value.entry(call).or_default().push(path);
        Ok(())
    }
}

/// Returns the text with which a result refers to the file with its whole content.
pub(crate) fn file_reference(path: &VPath) -> String {
    format!("It is in {path};")
}
