#!/usr/bin/env python3
"""Runs the calls of the README with a generated Python client against a real server.

The client comes from openapi-generator and docs/openapi.json. A call fails if the document does not
describe what the server accepts or returns.

    client.py SERVER DIRECTORY_OF_THE_GENERATED_CLIENT
"""

import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "schema"))

from run import Server  # noqa: E402


def readme_calls(url):
    import bluetick_client as api

    def caller(token=None):
        return api.ApiClient(api.Configuration(host=url, access_token=token))

    public = api.AccountsApi(caller())
    alice = public.signup(api.SignupRequest(user_id="alice", password="correct horse battery"))
    bob = public.signup(api.SignupRequest(user_id="bob", password="battery staple correct"))
    as_alice, as_bob = caller(alice.token), caller(bob.token)

    found = api.AccountsApi(as_alice).find_people(search="bo")
    assert [person.user_id for person in found.people] == ["bob"], found

    conversations = api.ConversationsApi(as_alice)
    direct = api.DirectConversation(kind="direct", peer="bob")
    chat = conversations.open_conversation(api.OpenConversationRequest(direct)).conversation_id
    again = conversations.open_conversation_with_http_info(api.OpenConversationRequest(direct))
    assert (again.status_code, again.data.conversation_id) == (200, chat), again

    messages = api.MessagesApi(as_alice)
    message = api.SendRequestBody(message_id="0190b2a4-7c1e-7000-8000-0123456789ab", content="hey")
    sent = messages.send_message_with_http_info(chat, message)
    assert (sent.status_code, sent.data.seq) == (201, 1), sent
    resent = messages.send_message_with_http_info(chat, message)
    assert (resent.status_code, resent.data.seq, resent.data.duplicate) == (200, 1, True), resent

    page = messages.read_history(chat, limit=20)
    assert [(each.seq, each.content) for each in page.messages] == [(1, "hey")], page
    inbox = api.ConversationsApi(as_bob).list_conversations(limit=20)
    unread = {entry.conversation_id: entry.unread for entry in inbox.conversations}
    assert unread == {chat: 1}, inbox

    marked = api.TicksApi(as_bob).mark_read(chat, api.MarkRequest(seq=1))
    assert marked.last_read_seq == 1, marked
    statuses = api.TicksApi(as_alice).show_status(chat).actual_instance
    read = {each.user_id: each.last_read_seq for each in statuses.members}
    assert read.keys() == {"alice", "bob"} and read["bob"] == 1, statuses
    receipts = api.TicksApi(as_alice).show_status(chat, seq=1).actual_instance
    assert (receipts.recipient_count, receipts.read_count) == (1, 1), receipts

    entry = conversations.change_conversation_settings(chat, api.PreferenceRequest(pinned=True))
    assert entry.pinned is True, entry
    profile = api.PresenceApi(as_alice).change_me(api.ProfileRequest(show_presence=False))
    assert profile.show_presence is False, profile

    try:
        api.PresenceApi(caller("not a token")).show_me()
    except api.exceptions.UnauthorizedException as error:
        assert error.data.error.code == "unauthenticated", error
    else:
        raise AssertionError("the server accepted an invalid token")


def main():
    server_binary, client = (pathlib.Path(argument) for argument in sys.argv[1:])
    sys.path.insert(0, str(client))
    with tempfile.TemporaryDirectory() as directory:
        server = Server(server_binary.resolve(), pathlib.Path(directory))
        try:
            server.wait_until_ready()
            readme_calls(server.url)
        finally:
            wrong = server.stop()
        if wrong or server.panics():
            sys.exit(wrong or "\n".join(server.panics()))


if __name__ == "__main__":
    main()
