//! The channels every agent has, and the macro for the common kind.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Channel, ChannelError, Sharing};
use crate::message::{Message, MessageOp, Messages};

/// The conversation. A sub-agent starts with an empty one and keeps its own.
#[derive(Debug)]
pub struct MessagesChannel;

impl Channel for MessagesChannel {
    const NAME: &'static str = "messages";
    const SHARING: Sharing<Messages, Vec<MessageOp>> = Sharing::separate();
    type Value = Messages;
    type Update = Vec<MessageOp>;

    fn reduce(value: &mut Messages, update: Vec<MessageOp>) -> Result<(), ChannelError> {
        value.apply(update);
        Ok(())
    }
}

/// The answer in the shape that was asked for, of the last run only.
#[derive(Debug)]
pub struct StructuredResponse;

impl Channel for StructuredResponse {
    const NAME: &'static str = "structured_response";
    const SHARING: Sharing<Option<Value>, Option<Value>> = Sharing::separate();
    type Value = Option<Value>;
    type Update = Option<Value>;

    fn reduce(value: &mut Option<Value>, update: Option<Value>) -> Result<(), ChannelError> {
        *value = update;
        Ok(())
    }
}

/// What was said to a run that came to wait before it could deliver it: the run that goes on does.
#[derive(Debug)]
pub(crate) struct Undelivered;

/// A message that was not delivered yet. Earlier versions kept the messages alone, since they kept no follow-ups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum UndeliveredMessage {
    /// For when the run would end.
    FollowUp { follow_up: Message },
    /// For the next call of the model.
    Said(Message),
}

impl Channel for Undelivered {
    const NAME: &'static str = "undelivered";
    const SHARING: Sharing<Vec<UndeliveredMessage>, Vec<UndeliveredMessage>> = Sharing::private();
    const FROM_INPUT: bool = false;
    type Value = Vec<UndeliveredMessage>;
    type Update = Vec<UndeliveredMessage>;

    fn reduce(value: &mut Vec<UndeliveredMessage>, update: Vec<UndeliveredMessage>) -> Result<(), ChannelError> {
        *value = update;
        Ok(())
    }
}

/// Declares a channel that holds the last value written. Two calls of one turn may not both write it. Sub-agents share
/// it; where they shall not, `copied`, `separate` or `private` follows, as [`Sharing`] calls these kinds.
///
/// ```
/// deepagents_core::last_value!(
///     /// Where we are.
///     pub City("city"): Option<String>
/// );
/// deepagents_core::last_value!(
///     /// How often a middleware has asked.
///     Asked("asked"): u32 => private
/// );
/// ```
#[macro_export]
macro_rules! last_value {
    ($(#[$meta:meta])* $vis:vis $key:ident($name:literal): $value:ty) => {
        $crate::last_value!($(#[$meta])* $vis $key($name): $value => shared);
    };
    ($(#[$meta:meta])* $vis:vis $key:ident($name:literal): $value:ty => $sharing:ident) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis struct $key;
        impl $crate::state::Channel for $key {
            const NAME: &'static str = $name;
            const SHARING: $crate::state::Sharing<$value, $value> = $crate::state::Sharing::$sharing();
            const CONCURRENT: $crate::state::Concurrent = $crate::state::Concurrent::Refuse;
            type Value = $value;
            type Update = $value;
            // Whatever `Result` is where the macro is used.
            fn reduce(value: &mut $value, update: $value) -> ::std::result::Result<(), $crate::state::ChannelError> {
                *value = update;
                ::std::result::Result::Ok(())
            }
        }
    };
}
