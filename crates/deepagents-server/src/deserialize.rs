//! Deserialises JSON of clients. A list is not accepted where an object is expected: derived implementations would take
//! its elements as the values of the fields, in their order.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Error, IntoDeserializer, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use serde_json::{Map, Value};

/// Deserialises a value. The error names the field, if there is one.
pub(crate) fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(Json(value)).map_err(|error| match error.path().iter().next() {
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
struct Json(Value);

impl<'de> Deserializer<'de> for Json {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Array(items) => SeqDeserializer::new(items.into_iter().map(Json)).deserialize_any(visitor),
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(name, value)| (name, Json(value)));
                MapDeserializer::new(fields).deserialize_any(visitor)
            }
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Array(_) => Err(Error::invalid_type(Unexpected::Seq, &visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
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
        self.0.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct identifier ignored_any
    }
}

impl IntoDeserializer<'_, serde_json::Error> for Json {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
