//! The wire format: messages, states and interrupts as the LangGraph server writes them.

mod as_sent;
mod block_input;
mod calls;
mod input;
mod interrupt;
mod message;
mod message_input;
mod sources;
mod state;

pub(crate) use calls::{Call, calls, open_calls, take, without_answered};
pub(crate) use input::{InputError, overwritten, read_input, read_other_channels, read_update};
pub(crate) use interrupt::{OpenInterrupt, open_interrupts, read_resume};
pub(crate) use message::{chunk_text, content_block, message, tool_call_chunk, usage};
pub(crate) use state::{named, next_nodes, state_values, values};
