//! The bodies of HTTP calls.

mod account;
mod conversation;
mod error;
mod health;
mod message;

pub use account::{
    LoginRequest, MintRequest, NewPasswordRequest, NewUserRequest, SignupRequest, TokenBody, UserBody,
};
pub use conversation::{
    AddMembersRequest, ConversationBody, KindBody, MemberBody, OpenConversation, OpenConversationRequest,
    RoleBody,
};
pub use error::{ErrorBody, ErrorDetail};
pub use health::{HealthBody, ReadyBody};
pub use message::{MessageBody, PageBody, PageParameters, SendRequestBody, SentBody};
