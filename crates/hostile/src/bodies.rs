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
const TOLD_BYTES: usize = 1_000;

/// Decodes the input as every kind of request body.
pub fn any_body(json: &[u8]) {
    told(decode::<SignupRequest>(json).and_then(|body| body.user().and(body.display_name().map(drop))));
    told(decode::<LoginRequest>(json).and_then(|body| body.user()));
    told(decode::<NewPasswordRequest>(json));
    told(decode::<NewUserRequest>(json));
    told(decode::<MintRequest>(json).and_then(|body| body.user()));
    told(OpenConversation::decode(json));
    told(decode::<AddMembersRequest>(json).and_then(|body| {
        let users = body.users()?;
        assert_eq!(users.len(), body.count());
        Ok(users)
    }));
    told(decode::<SendRequestBody<'_>>(json).and_then(|body| {
        let id = body.message_id();
        let request = body.into_request(ConversationId::group([7; 15]), None)?;
        assert_eq!(id.as_ref(), Ok(&request.message_id));
        Ok(request.message_id)
    }));
    told(decode::<ReceiptRequest>(json).map(|body| body.seq()));
    told(decode::<PreferenceRequest>(json));
    told(decode::<ProfileRequest>(json));
    told(decode::<ArchiveRunRequest>(json).and_then(|body| body.run()));
    told(decode::<RestoreRequest>(json).and_then(|body| body.conversation()));
    told(decode::<ErasureRequest>(json).and_then(|body| body.erase()));
}

fn told<T>(outcome: Result<T, BadInput>) {
    if let Err(error) = outcome {
        is_fit_to_be_told(&error.to_string());
    }
}

/// Asserts that an error message is not empty and at most `TOLD_BYTES` long, regardless of the
/// input size.
pub fn is_fit_to_be_told(error: &str) {
    assert!(!error.is_empty() && error.len() <= TOLD_BYTES, "{} bytes: {error}", error.len());
}
