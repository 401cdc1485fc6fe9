//! The request and response bodies of the HTTP API, and its query parameters.

mod account;
mod archive;
mod conversation;
mod error;
mod health;
mod inbox;
mod message;
mod people;
mod presence;
mod query;
mod status;

pub use account::{
    LoginRequest, LogoutRequest, MintRequest, NewPasswordRequest, NewUserRequest, SignupRequest, TokenBody,
    UserBody,
};
pub use archive::{
    ArchiveBody, ArchiveRunRequest, BackupReportBody, BackupRequest, ColdBody, EraseReportBody,
    ErasureRequest, JobBegunBody, JobBody, JobKind, ReportBody, RestoreReportBody, RestoreRequest,
    RunReportBody, StageBody, VerifyReportBody,
};
pub use conversation::{
    AddMembersRequest, ConversationBody, ConversationDetailBody, KindBody, MemberBody, OpenConversation,
    OpenConversationRequest, OwnPartBody, RoleBody,
};
pub use error::{ErrorBody, ErrorDetail};
pub use health::{HealthBody, ReadyBody, ServerBody};
pub use inbox::{
    InboxEntryBody, InboxPageBody, InboxParameters, LastMessageBody, PreferenceRequest, ReadStateBody,
};
pub use message::{MessageBody, PageBody, PageParameters, SendRequestBody, SentBody};
pub(crate) use message::{content_type, retry_after};
pub use people::{PeopleBody, PeopleParameters, PersonBody};
pub use presence::{PresenceBody, PresencesBody, ProfileBody, ProfileRequest};
pub use status::{
    MemberStatusBody, OwnStatusBody, ReceiptRequest, ReceiptsBody, StatusBody, StatusParameters, StatusesBody,
};
