//! Fuzz targets for WebSocket frames in both directions.

use bluetick_client::wire::frames::Frame;
use bluetick_core::ports::Origin;
use bluetick_core::{Epoch, Seq};
use bluetick_wire::frame::{ClientFrame, readable_message_id};
use bluetick_wire::fuzzing::both_readings;

use crate::bodies::assert_short_error;

/// Decodes a client frame. Asserts that the fast and the general parser agree.
pub fn any_client_frame(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (at_once, slowly) = both_readings(text);
    if let Some(at_once) = at_once {
        assert_eq!(Ok(at_once), slowly, "the fast and the general parser disagree");
    }
    let about = readable_message_id(text);
    match ClientFrame::decode(text) {
        Err(error) => assert_short_error(&error.to_string()),
        Ok(ClientFrame::Send(send)) => {
            let (id, conversation) = (send.message_id(), send.conversation());
            assert_eq!(id.clone().ok(), about, "the message id that an error names");
            let (Ok(id), Some(conversation)) = (id, conversation) else { return };
            if let Ok(request) = send.into_request(conversation, id, Origin(7)) {
                assert!(request.retry_after.is_none_or(|after| after <= Seq::MAX));
            }
        }
        Ok(ClientFrame::Receipt(_, mark)) => {
            assert!(mark.seq() <= Seq::MAX);
            let _ = mark.conversation();
        }
        Ok(ClientFrame::Typing(typing)) => {
            let _ = typing.conversation();
        }
        Ok(ClientFrame::Hello(hello)) => {
            assert!(hello.positions_in(Epoch::FIRST).iter().all(|position| position.seq <= Seq::MAX));
        }
        Ok(ClientFrame::Ping) => {}
    }
}

/// Decodes a server frame, which may come from a malicious server.
pub fn any_server_frame(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let frame = Frame::new(text.to_owned().into());
    let _ = (frame.kind(), frame.decode());
}
