//! `POST /v1/conversations/{conversation_id}/delivered`, `POST …/read`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_core::ports::Receipt;
use bluetick_core::{ConversationId, ReceiptKind};
use bluetick_wire::decode;
use bluetick_wire::http::{ErrorBody, OwnStatusBody, ReceiptRequest};

use super::extract::{Caller, ConversationPath, Payload};
use super::reply;
use crate::app::App;
use crate::problem::Problem;

/// Acknowledge delivery
///
/// Marks every message up to `seq` as delivered to a device of the caller. Receipts are cumulative:
/// a late or repeated call changes nothing, and a seq above the head counts as the head. The other
/// members get a `status` frame, or a `receipts` frame in a large group.
#[utoipa::path(
    post, path = "/v1/conversations/{conversation_id}/delivered", operation_id = "mark_delivered",
    tag = "ticks", request_body = ReceiptRequest, security(("token" = [])),
    params(("conversation_id" = String, Path, description = "The id of the conversation")),
    responses((status = 200, description = "The read state of the caller", body = OwnStatusBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn delivered(
    State(app): State<Arc<App>>,
    caller: Caller,
    ConversationPath(id): ConversationPath,
    Payload(body): Payload,
) -> Result<Response, Problem> {
    apply_receipt(&app, caller, id, ReceiptKind::Delivered, &body).await
}

/// Mark messages as read
///
/// Marks every message up to `seq` as read by the caller, and therefore as delivered. Receipts are
/// cumulative: a late or repeated call changes nothing, and a seq above the head counts as the
/// head. The other members get a `status` frame, or a `receipts` frame in a large group, unless the
/// caller turned read receipts off.
#[utoipa::path(
    post, path = "/v1/conversations/{conversation_id}/read", operation_id = "mark_read",
    tag = "ticks", request_body = ReceiptRequest, security(("token" = [])),
    params(("conversation_id" = String, Path, description = "The id of the conversation")),
    responses((status = 200, description = "The read state of the caller", body = OwnStatusBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn read(
    State(app): State<Arc<App>>,
    caller: Caller,
    ConversationPath(id): ConversationPath,
    Payload(body): Payload,
) -> Result<Response, Problem> {
    apply_receipt(&app, caller, id, ReceiptKind::Read, &body).await
}

async fn apply_receipt(
    app: &App,
    caller: Caller,
    conversation: ConversationId,
    kind: ReceiptKind,
    body: &[u8],
) -> Result<Response, Problem> {
    let request: ReceiptRequest = decode(body)?;
    let _work = app.lifecycle.begin_work()?;
    // No WebSocket sent this receipt, so all connections of the caller are notified.
    let receipt = Receipt { conversation, user: caller.user.clone(), kind, seq: request.seq(), origin: None };
    let read_state = app.chat.apply_receipt(receipt).await;
    let counter = if read_state.is_ok() { &app.metrics.marks } else { &app.metrics.marks_refused };
    counter.inc();
    let read_state = read_state?;
    Ok(reply::json(StatusCode::OK, &OwnStatusBody::new(conversation, &caller.user, read_state)))
}
