//! Incremental decoder for Amazon's event stream.

use aws_smithy_eventstream::frame::{DecodedFrame, MessageFrameDecoder};
use bytes::{Buf, BytesMut};
use deepagents_core::model::{ErrorInfo, ModelError};
use serde_json::Value;

use super::error::classify;
use super::frames::Frame;

/// Splits bytes into events. The decoder of the AWS SDK checks checksums and lengths.
#[derive(Debug, Default)]
pub(crate) struct AwsEventDecoder {
    buffer: BytesMut,
    frames: MessageFrameDecoder,
}

/// Maximum frame length: the SDK rejects payloads above 16 MiB.
const MAX_FRAME_BYTES: usize = 17 << 20;

impl AwsEventDecoder {
    /// Feeds more bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next event.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, ModelError> {
        let damaged =
            |error: &dyn std::fmt::Display| ModelError::truncated(format!("a frame of the answer is damaged: {error}"));
        let message = match self.frames.decode_frame(&mut self.buffer).map_err(|error| damaged(&error))? {
            DecodedFrame::Complete(message) => message,
            DecodedFrame::Incomplete if self.buffer.remaining() > MAX_FRAME_BYTES => {
                return Err(damaged(&"its end is missing"));
            }
            DecodedFrame::Incomplete => return Ok(None),
        };
        let header = |name: &str| {
            let found = message.headers().iter().find(|header| header.name().as_str() == name)?;
            found.value().as_string().ok().map(|text| text.as_str().to_owned())
        };
        let data = String::from_utf8_lossy(message.payload()).into_owned();
        let code = header(":exception-type").or_else(|| header(":error-code"));
        if let Some(code) = code {
            let body = serde_json::from_str::<Value>(&data).unwrap_or_default();
            let text = ["message", "Message", "originalMessage"].iter().find_map(|key| body.get(key)?.as_str());
            let message = text.map(str::to_owned).or_else(|| header(":error-message")).unwrap_or(data);
            let info = ErrorInfo { message, code: Some(code.clone()), ..ErrorInfo::default() };
            return Err(classify(None, &[code], info));
        }
        Ok(Some(Frame { name: header(":event-type").unwrap_or_default(), data }))
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_eventstream::frame::write_message_to;
    use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
    use proptest::prelude::*;

    use super::*;

    fn frame(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_message_to(&message(headers, payload), &mut bytes).unwrap();
        bytes
    }

    fn message(headers: &[(&str, &str)], payload: &str) -> Message {
        headers.iter().fold(Message::new(payload.to_owned()), |message, (name, value)| {
            message.add_header(Header::new((*name).to_owned(), HeaderValue::String((*value).to_owned().into())))
        })
    }

    #[test]
    fn events_have_their_names_and_exceptions_become_errors_of_their_class() {
        let mut decoder = AwsEventDecoder::default();
        let headers = [(":message-type", "event"), (":event-type", "messageStart")];
        decoder.push(&frame(&headers, "{}"));
        decoder.push(&frame(
            &[(":message-type", "exception"), (":exception-type", "throttlingException")],
            "{\"message\":\"slow down\"}",
        ));
        assert_eq!(decoder.next().unwrap(), Some(Frame { name: "messageStart".into(), data: "{}".into() }));
        let error = decoder.next().unwrap_err();
        assert_eq!((error.kind(), error.info().message.as_str()), ("rate_limited", "slow down"));
        assert_eq!(decoder.next().unwrap(), None);
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = AwsEventDecoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.next() {}
        }
    }
}
