//! The channels of an agent.

use std::ops::Range;

use super::ChannelSpec;

/// The channels of an agent, sorted by name, with unique names.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    channels: Vec<ChannelSpec>,
}

/// Error: two types use the same channel name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two types claim the channel name `{name}`: {first} and {second}; rename one of them")]
pub struct SchemaError {
    /// The name.
    pub name: String,
    /// The first type.
    pub first: &'static str,
    /// The second type.
    pub second: &'static str,
}

impl Schema {
    /// Collects channels. The same channel may occur several times.
    ///
    /// # Errors
    /// Returns an error if two types use the same name.
    pub fn new(specs: impl IntoIterator<Item = ChannelSpec>) -> Result<Self, SchemaError> {
        let mut channels: Vec<ChannelSpec> = Vec::new();
        for spec in specs {
            match channels.binary_search_by(|c| c.name().cmp(spec.name())) {
                Err(at) => channels.insert(at, spec),
                Ok(at) => match channels.get(at) {
                    Some(known) if !known.same(&spec) => {
                        return Err(SchemaError {
                            name: spec.name().to_owned(),
                            first: known.type_name(),
                            second: spec.type_name(),
                        });
                    }
                    _ => {}
                },
            }
        }
        Ok(Self { channels })
    }

    /// Returns the channels.
    pub fn channels(&self) -> &[ChannelSpec] {
        &self.channels
    }

    /// Returns the channel with a name.
    pub fn by_name(&self, name: &str) -> Option<ChannelSpec> {
        self.position(name).and_then(|at| self.channels.get(at)).copied()
    }

    /// Returns whether it contains the channel, compared by type.
    pub(crate) fn has(&self, spec: &ChannelSpec) -> bool {
        self.by_name(spec.name()).is_some_and(|known| known.same(spec))
    }

    /// Declares a channel, in place of any other with its name. Returns the positions that it replaces.
    pub(super) fn declare(&mut self, spec: ChannelSpec) -> Range<usize> {
        let at = match self.channels.binary_search_by(|c| c.name().cmp(spec.name())) {
            Ok(at) => at..at.saturating_add(1),
            Err(at) => at..at,
        };
        self.channels.splice(at.clone(), [spec]);
        at
    }

    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.channels.binary_search_by(|c| c.name().cmp(name)).ok()
    }
}
