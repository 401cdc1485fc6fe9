//! Entry points for the fuzz targets.

use crate::frame::client::as_text::as_text;
use crate::frame::scan::usual_frame;
use crate::frame::{ClientFrame, FrameError};

/// Decodes a text with the one-pass decoder and with the general decoder, for comparison.
pub fn both_readings(text: &str) -> (Option<String>, Result<String, FrameError>) {
    let at_once = usual_frame(text).map(|frame| as_text(&frame));
    (at_once, ClientFrame::decode_any(text).map(|frame| as_text(&frame)))
}
