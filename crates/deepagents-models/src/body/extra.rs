//! Extra fields that a configuration and a request merge into the body.

use bytes::Bytes;
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::{Map, Value};

use super::WrittenFields;

/// Fields merged into the body: those of the model and those of the request, which win.
#[derive(Clone, Copy)]
pub(crate) struct Extra<'a> {
    pub(crate) model: &'a Map<String, Value>,
    pub(crate) request: &'a Map<String, Value>,
}

impl<'a> Extra<'a> {
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.request.get(key).or_else(|| self.model.get(key))
    }

    /// Filters already encoded fields: drops those that extra fields replace and those without a value.
    pub(crate) fn left<const N: usize>(&self, fields: [(&'static str, Option<Bytes>); N]) -> WrittenFields {
        let fields = fields.into_iter().filter(|(name, _)| self.get(name).is_none());
        fields.filter_map(|(name, text)| Some((name, text?))).collect()
    }

    fn iter(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let request = self.request;
        self.model.iter().filter(move |(key, _)| !request.contains_key(*key)).chain(self.request)
    }
}

/// Writes the fields of a body, omitting those that extra fields replace.
pub(crate) struct Fields<'a, M> {
    pub(crate) map: M,
    pub(crate) extra: Extra<'a>,
}

impl<M: SerializeMap> Fields<'_, M> {
    /// Writes a field unless an extra field replaces it.
    pub(crate) fn put<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), M::Error> {
        if self.extra.get(key).is_some() { Ok(()) } else { self.map.serialize_entry(key, value) }
    }

    /// Writes a field if there is a value.
    pub(crate) fn put_some<T: Serialize>(&mut self, key: &'static str, value: Option<T>) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.put(key, &value))
    }

    /// Writes an object that the extra field with its name is already [merged](super::Head::settings) into.
    pub(crate) fn put_merged(&mut self, key: &'static str, object: &Map<String, Value>) -> Result<(), M::Error> {
        if object.is_empty() { Ok(()) } else { self.map.serialize_entry(key, object) }
    }

    /// Writes the extra fields except those in `except`, which the wire has merged itself.
    pub(crate) fn put_extra(&mut self, except: &[&str]) -> Result<(), M::Error> {
        for (key, value) in self.extra.iter().filter(|(key, _)| !except.contains(&key.as_str())) {
            self.map.serialize_entry(key, value)?;
        }
        Ok(())
    }
}
