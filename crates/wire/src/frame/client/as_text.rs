//! Formats frames as text, to compare the two decoders.

use std::collections::BTreeMap;

use super::*;

/// Formats every field of a frame.
pub(crate) fn as_text(frame: &ClientFrame<'_>) -> String {
    match frame {
        ClientFrame::Send(send) => {
            let SendFrame { conversation_id, message_id, content, content_type, timestamp, retry, after_seq } =
                send;
            format!(
                "send {conversation_id:?} {message_id:?} {content:?} {content_type:?} {timestamp:?} {retry:?} {after_seq:?}"
            )
        }
        ClientFrame::Receipt(kind, ReceiptFrame { conversation_id, seq }) => {
            format!("{kind:?} {conversation_id:?} {seq}")
        }
        ClientFrame::Hello(Hello { token, device_id, positions }) => {
            let positions = positions.as_ref().map(|positions| positions.iter().collect::<BTreeMap<_, _>>());
            format!("hello {token:?} {device_id:?} {positions:?}")
        }
        ClientFrame::Typing(TypingFrame { conversation_id }) => format!("typing {conversation_id:?}"),
        ClientFrame::Ping => "ping".into(),
    }
}
