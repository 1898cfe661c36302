//! The channels that every agent has, and the macro for last-value channels.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Channel, ChannelError, Sharing};
use crate::message::{Message, MessageOp, Messages};

/// The conversation. A sub-agent starts with an empty one of its own.
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

/// The structured answer of the last run.
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

/// Messages that a run stopped too early to deliver. The run that resumes it delivers them.
#[derive(Debug)]
pub(crate) struct Undelivered;

/// A message that has not been delivered. Earlier versions stored plain messages, as they kept no follow-ups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum UndeliveredMessage {
    /// To be delivered when the run would finish.
    FollowUp { follow_up: Message },
    /// To be delivered with the next model call.
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

/// Declares a channel that holds the last value written. Two calls of one turn must not both write it. Sub-agents share
/// it, unless the name of another kind of [`Sharing`] follows: `copied`, `separate` or `private`; after a comma, names
/// of methods that change it, such as `not_projected`, may follow.
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
    ($(#[$meta:meta])* $vis:vis $key:ident($name:literal): $value:ty => $sharing:ident $(, $change:ident)*) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis struct $key;
        impl $crate::state::Channel for $key {
            const NAME: &'static str = $name;
            const SHARING: $crate::state::Sharing<$value, $value> = $crate::state::Sharing::$sharing()$(.$change())*;
            const CONCURRENT: $crate::state::Concurrent = $crate::state::Concurrent::Refuse;
            type Value = $value;
            type Update = $value;
            // Independent of the `Result` in scope where the macro is used.
            fn reduce(value: &mut $value, update: $value) -> ::std::result::Result<(), $crate::state::ChannelError> {
                *value = update;
                ::std::result::Result::Ok(())
            }
        }
    };
}
