//! `bluetick erase`: deletes the content of messages permanently, after a confirmation.

use std::io::{self, IsTerminal};

use bluetick_wire::http::ErasureRequest;

use super::archive::carry_out;
use crate::archive::ArchiveTask;
use crate::cli::{ConsentArgs, EraseCommand};
use crate::failure::Failure;
use crate::prompt::ask;

pub fn run(command: &EraseCommand) -> Result<(), Failure> {
    match command {
        EraseCommand::Conversation(arguments) => {
            let id = arguments.conversation.to_string();
            let what = match arguments.through {
                Some(seq) => format!("every message of the conversation {id} up to {seq}"),
                None => format!("every message of the conversation {id}"),
            };
            consent(arguments.consent, &what, &id)?;
            let request =
                ErasureRequest { conversation_id: Some(id), user_id: None, through_seq: arguments.through };
            carry_out(&ArchiveTask::Erase(request), &arguments.places, arguments.output)
        }
        EraseCommand::User(arguments) => {
            let user = arguments.name.to_string();
            let what = match arguments.conversation {
                Some(id) => format!("every message {user} wrote in the conversation {id}"),
                None => format!("every message {user} wrote, in all conversations"),
            };
            consent(arguments.consent, &what, &user)?;
            let request = ErasureRequest {
                conversation_id: arguments.conversation.map(|id| id.to_string()),
                user_id: Some(user),
                through_seq: None,
            };
            carry_out(&ArchiveTask::Erase(request), &arguments.places, arguments.output)
        }
    }
}

fn consent(given: ConsentArgs, what: &str, id: &str) -> Result<(), Failure> {
    if given.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage("erasing cannot be undone; pass --yes if there is no terminal"));
    }
    eprintln!("This deletes {what}, here and in the archive.");
    if ask("This cannot be undone. Type the id to continue: ")? == id {
        Ok(())
    } else {
        Err(Failure::usage("that is not the id; nothing was erased"))
    }
}
