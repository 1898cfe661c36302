//! Checks that values survive a round trip through JSON.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::{Error, Value};

use crate::message::{MAX_VALUE_DEPTH, is_deeper};

/// Converts a value to JSON that its type reads back and that JSON parsers accept as part of a record.
///
/// # Errors
/// Returns the reason if the value would not survive, written for whoever made it.
pub(super) fn storable<T: Serialize + DeserializeOwned>(value: Option<&T>) -> Result<Value, String> {
    let value = value.ok_or("it is of another type")?;
    value.serialize(Finite).map_err(text)?;
    let json = serde_json::to_value(value).map_err(text)?;
    if is_deeper(&json, MAX_VALUE_DEPTH) {
        return Err(too_deep());
    }
    serde_path_to_error::deserialize::<_, T>(&json).map_err(text)?;
    Ok(json)
}

fn text(error: impl Display) -> String {
    error.to_string()
}

/// Returns the error text for a value that is nested too deep.
pub(crate) fn too_deep() -> String {
    format!("it is nested more than {MAX_VALUE_DEPTH} levels deep")
}

/// Finds numbers that JSON cannot express. Serialisers write null for them, which an optional number reads back as
/// `None`.
#[derive(Clone, Copy)]
struct Finite;

/// Defines methods that contain no floating-point number themselves.
macro_rules! no_number {
    ($($name:ident($($type:ty),*),)*) => {
        $(fn $name(self $(, _: $type)*) -> Result<Self, Error> {
            Ok(self)
        })*
    };
}

impl Serializer for Finite {
    type Ok = Self;
    type Error = Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    no_number! {
        serialize_bool(bool),
        serialize_i8(i8),
        serialize_i16(i16),
        serialize_i32(i32),
        serialize_i64(i64),
        serialize_i128(i128),
        serialize_u8(u8),
        serialize_u16(u16),
        serialize_u32(u32),
        serialize_u64(u64),
        serialize_u128(u128),
        serialize_char(char),
        serialize_str(&str),
        serialize_bytes(&[u8]),
        serialize_none(),
        serialize_unit(),
        serialize_unit_struct(&'static str),
        serialize_unit_variant(&'static str, u32, &'static str),
        serialize_seq(Option<usize>),
        serialize_tuple(usize),
        serialize_tuple_struct(&'static str, usize),
        serialize_tuple_variant(&'static str, u32, &'static str, usize),
        serialize_map(Option<usize>),
        serialize_struct(&'static str, usize),
        serialize_struct_variant(&'static str, u32, &'static str, usize),
    }

    fn serialize_f32(self, number: f32) -> Result<Self, Error> {
        self.serialize_f64(number.into())
    }

    fn serialize_f64(self, number: f64) -> Result<Self, Error> {
        if number.is_finite() {
            Ok(self)
        } else {
            Err(Error::custom(format!("JSON cannot represent the number {number}")))
        }
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Self, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<Self, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<Self, Error> {
        value.serialize(self)
    }
}

/// Implements the traits for compound types.
macro_rules! parts {
    ($($part:ident::$name:ident($($key:ty)?),)*) => {
        $(impl $part for Finite {
            type Ok = Self;
            type Error = Error;

            fn $name<T: Serialize + ?Sized>(&mut self, $(_: $key,)? value: &T) -> Result<(), Error> {
                value.serialize(*self).map(drop)
            }

            fn end(self) -> Result<Self, Error> {
                Ok(self)
            }
        })*
    };
}
parts! {
    SerializeSeq::serialize_element(),
    SerializeTuple::serialize_element(),
    SerializeTupleStruct::serialize_field(),
    SerializeTupleVariant::serialize_field(),
    SerializeStruct::serialize_field(&'static str),
    SerializeStructVariant::serialize_field(&'static str),
}

/// Keys need no check, because writing them fails if they are not valid.
impl SerializeMap for Finite {
    type Ok = Self;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(*self).map(drop)
    }

    fn end(self) -> Result<Self, Error> {
        Ok(self)
    }
}
