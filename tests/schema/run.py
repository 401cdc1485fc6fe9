#!/usr/bin/env python3
"""Calls every route of a real server with valid and invalid requests that schemathesis generates.

The script starts a server with its own data directory and creates users and conversations. No answer
may be a server error, have a status or a body that /openapi.json does not describe, or accept a call
without a token. The script deletes the data directory at the end.

    run.py SERVER SCHEMATHESIS [--seed N] [--examples N]
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).parent


# The routes that revoke the token of the calls. They run last.
LOG_OUT = ["logout", "set_password", "revoke_sessions"]


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Server:
    """The real server as a child process, on a temporary data directory."""

    # Disabled limits. Schemathesis sends a thousand requests a second, and other tests cover the limits.
    LIMITS = [
        "sends_per_second",
        "requests_per_second",
        "acks_per_second",
        "logins_per_minute",
        "logins_per_address_per_minute",
        "connections_per_address",
        "connects_per_address_per_second",
        "wrong_admin_keys_per_address_per_minute",
        "conversations_per_user_per_day",
        "group_invitations_per_user_per_hour",
        "members_added_per_user_per_hour",
    ]

    def __init__(self, binary, directory):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.data = directory / "data"
        self.log = directory / "server.log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BLUETICK_")}
        environment.update({f"BLUETICK_LIMITS__{limit.upper()}": "0" for limit in self.LIMITS})
        environment["BLUETICK_ARCHIVE__ENGINE"] = "directory"
        environment["BLUETICK_ARCHIVE__DIRECTORY"] = str(directory / "archive")
        listen = self.url.removeprefix("http://")
        command = [binary, "serve", "--data-dir", str(self.data), "--listen", listen]
        self.process = subprocess.Popen(command, env=environment, stderr=self.log.open("wb"), cwd=directory)

    def wait_until_ready(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(self.url + "/readyz", timeout=5):
                    return
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"the server does not start: {error}\n{self.log.read_text()}")
                time.sleep(0.1)

    def stop(self):
        """Stops the server with SIGTERM. Returns a sentence if it did not end normally, else None."""
        if self.process.poll() is not None:
            return f"the server ended by itself with exit code {self.process.returncode}"
        self.process.send_signal(signal.SIGTERM)
        try:
            ended = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "the server does not stop"
        return f"the server stopped with exit code {ended}" if ended != 0 else None

    def panics(self):
        return [line for line in self.log.read_text(errors="replace").splitlines() if "panicked" in line]

    def call(self, method, path, body=None, token=None):
        request = urllib.request.Request(self.url + path, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("content-type", "application/json")
        if token is not None:
            request.add_header("authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")


def furnish(server):
    """Creates users, conversations and messages, so that calls find existing resources."""
    tokens = {}
    for name in ["alice", "bob", "carol"]:
        made = server.call("POST", "/v1/signup", {"user_id": name, "password": f"{name} and a long password"})
        tokens[name] = made["token"]
    conversations = []
    for wanted in [
        {"kind": "direct", "peer": "bob"},
        {"kind": "group", "title": "Tea", "members": ["bob", "carol"]},
        {"kind": "group", "title": "Nobody else"},
    ]:
        made = server.call("POST", "/v1/conversations", wanted, tokens["alice"])
        conversations.append(made["conversation_id"])
        for number in range(5):
            said = {"message_id": f"m{number}", "content": f"message {number}"}
            path = f"/v1/conversations/{conversations[-1]}/messages"
            server.call("POST", path, said, tokens["alice"])
    # A conversation that exists and that alice is not a member of.
    made = server.call("POST", "/v1/conversations", {"kind": "direct", "peer": "carol"}, tokens["bob"])
    conversations.append(made["conversation_id"])
    return tokens["alice"], conversations


def settings(server, token, conversations, seed, examples):
    """Returns the configuration of schemathesis. JSON strings and lists are valid TOML."""
    admin_key = (server.data / "admin.key").read_text().strip()
    return f"""
seed = {seed}
continue-on-failure = true
workers = 2

[auth.openapi]
token = {{ bearer = {json.dumps(token)} }}
admin_key = {{ bearer = {json.dumps(admin_key)} }}

[dictionaries]
conversations = {{ values = {json.dumps(conversations)} }}
people = {{ values = ["alice", "bob", "carol"] }}

[parameters]
"path.conversation_id" = {{ dictionary = "conversations", probability = 0.7 }}
"path.user_id" = {{ dictionary = "people", probability = 0.5 }}

[generation]
max-examples = {examples}
mode = "all"
""" + (HERE / "schemathesis.toml").read_text()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("server", type=pathlib.Path)
    parser.add_argument("schemathesis", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=25, help="generated calls per route and phase")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        server = Server(arguments.server.resolve(), directory)
        try:
            server.wait_until_ready()
            token, conversations = furnish(server)
            config = directory / "schemathesis.toml"
            config.write_text(settings(server, token, conversations, arguments.seed, arguments.examples))
            command = [arguments.schemathesis.absolute(), "--config-file", config, "run", server.url + "/openapi.json"]
            without, alone = ([f"--{kind}-operation-id={name}" for name in LOG_OUT] for kind in ["exclude", "include"])
            passed = subprocess.run(command + without, cwd=directory).returncode == 0
            # The server still answers after all generated calls.
            server.call("GET", "/v1/conversations", token=token)
            # The routes that revoke the token come last.
            passed = subprocess.run(command + alone, cwd=directory).returncode == 0 and passed
            made = server.call("POST", "/v1/signup", {"user_id": "who-came-last-4711", "password": "one more long password"})
            server.call("GET", "/v1/conversations", token=made["token"])
        finally:
            wrong = server.stop()
        troubles = ([] if passed else ["schemathesis found a problem, see above"]) + ([wrong] if wrong else [])
        troubles += [f"the server panicked: {line}" for line in server.panics()]
        for trouble in troubles:
            print(trouble, file=sys.stderr)
        sys.exit(1 if troubles else 0)


if __name__ == "__main__":
    main()
