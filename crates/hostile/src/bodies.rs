//! Fuzz target for HTTP request bodies.

use bluetick_core::ConversationId;
use bluetick_wire::http::{
    AddMembersRequest, ArchiveRunRequest, ErasureRequest, LoginRequest, MintRequest, NewPasswordRequest,
    NewUserRequest, OpenConversation, PreferenceRequest, ProfileRequest, ReceiptRequest, RestoreRequest,
    SendRequestBody, SignupRequest,
};
use bluetick_wire::{BadInput, decode};

/// Upper bound on the length of an error message about a body, in bytes. It must not grow with the
/// input.
const MAX_ERROR_BYTES: usize = 1_000;

/// Decodes the input as every kind of request body.
pub fn any_body(json: &[u8]) {
    check_error(
        decode::<SignupRequest>(json).and_then(|body| body.user().and(body.display_name().map(drop))),
    );
    check_error(decode::<LoginRequest>(json).and_then(|body| body.user()));
    check_error(decode::<NewPasswordRequest>(json));
    check_error(decode::<NewUserRequest>(json));
    check_error(decode::<MintRequest>(json).and_then(|body| body.user()));
    check_error(OpenConversation::decode(json));
    check_error(decode::<AddMembersRequest>(json).and_then(|body| {
        let users = body.users()?;
        assert_eq!(users.len(), body.count());
        Ok(users)
    }));
    check_error(decode::<SendRequestBody<'_>>(json).and_then(|body| {
        let id = body.message_id();
        let request = body.into_request(ConversationId::group([7; 15]), None)?;
        assert_eq!(id.as_ref(), Ok(&request.message_id));
        Ok(request.message_id)
    }));
    check_error(decode::<ReceiptRequest>(json).map(|body| body.seq()));
    check_error(decode::<PreferenceRequest>(json));
    check_error(decode::<ProfileRequest>(json));
    check_error(decode::<ArchiveRunRequest>(json).and_then(|body| body.run()));
    check_error(decode::<RestoreRequest>(json).and_then(|body| body.conversation()));
    check_error(decode::<ErasureRequest>(json).and_then(|body| body.erase()));
}

fn check_error<T>(outcome: Result<T, BadInput>) {
    if let Err(error) = outcome {
        assert_short_error(&error.to_string());
    }
}

/// Asserts that an error message is not empty and at most `MAX_ERROR_BYTES` long, regardless of the
/// input size.
pub fn assert_short_error(error: &str) {
    assert!(!error.is_empty() && error.len() <= MAX_ERROR_BYTES, "{} bytes: {error}", error.len());
}
