//! Deserialises JSON of clients. A list is not accepted where an object is expected: derived implementations would take
//! its elements as the values of the fields, in their order.

use std::borrow::Cow;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Error, IntoDeserializer, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use serde_json::{Map, Value};

/// Deserialises a value. The error names the field, if there is one.
pub(crate) fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    read(Json(Cow::Owned(value)))
}

/// Deserialises a value as [`from_value`] does.
pub(crate) fn from_ref<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<T, String> {
    read(Json(Cow::Borrowed(value)))
}

fn read<'de, T: Deserialize<'de>>(json: Json<'de>) -> Result<T, String> {
    serde_path_to_error::deserialize(json).map_err(|error| match error.path().iter().next() {
        None | Some(serde_path_to_error::Segment::Unknown) => error.inner().to_string(),
        Some(_) => format!("`{}`: {}", error.path(), error.inner()),
    })
}

/// Deserialises a field that must be an object, for untagged enums, which bypass [`from_value`].
pub(crate) fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    from_value(Value::Object(Map::deserialize(deserializer)?)).map_err(D::Error::custom)
}

/// Deserialises a field that may be absent. Null is an error unless `T` accepts it.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A value whose lists are not accepted as structs.
struct Json<'a>(Cow<'a, Value>);

impl<'de> Deserializer<'de> for Json<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Cow::Owned(Value::Array(items)) => {
                let items = items.into_iter().map(|item| Json(Cow::Owned(item)));
                SeqDeserializer::new(items).deserialize_any(visitor)
            }
            Cow::Borrowed(Value::Array(items)) => {
                let items = items.iter().map(|item| Json(Cow::Borrowed(item)));
                SeqDeserializer::new(items).deserialize_any(visitor)
            }
            Cow::Owned(Value::Object(fields)) => {
                let fields = fields.into_iter().map(|(name, value)| (name, Json(Cow::Owned(value))));
                MapDeserializer::new(fields).deserialize_any(visitor)
            }
            Cow::Borrowed(Value::Object(fields)) => {
                let fields = fields.iter().map(|(name, value)| (name.as_str(), Json(Cow::Borrowed(value))));
                MapDeserializer::new(fields).deserialize_any(visitor)
            }
            Cow::Owned(other) => other.deserialize_any(visitor),
            Cow::Borrowed(other) => other.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        match *self.0 {
            Value::Array(_) => Err(Error::invalid_type(Unexpected::Seq, &visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match *self.0 {
            // Maps of JSON would take null as an empty one.
            Value::Null => Err(Error::invalid_type(Unexpected::Unit, &visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        match self.0 {
            Cow::Owned(value) => value.deserialize_enum(name, variants, visitor),
            Cow::Borrowed(value) => value.deserialize_enum(name, variants, visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, serde_json::Error> for Json<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
