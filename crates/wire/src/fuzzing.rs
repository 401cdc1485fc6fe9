//! For the fuzz targets alone.

use crate::frame::client::told::told;
use crate::frame::scan::usual_frame;
use crate::frame::{ClientFrame, FrameError};

/// What each of the two readers of frames makes of a text: the one that reads in one pass what is usual, and the one
/// that reads anything.
pub fn both_readings(text: &str) -> (Option<String>, Result<String, FrameError>) {
    let at_once = usual_frame(text).map(|frame| told(&frame));
    (at_once, ClientFrame::decode_any(text).map(|frame| told(&frame)))
}
