#!/usr/bin/env python3
"""Checks the API documents, the page that shows them, and a client generated from them.

Every check runs, also after another one failed. `tests/api/openapi-v1.json` is the baseline of v1:
a change that breaks its clients fails. After a compatible change, set BLUETICK_BLESS=1 to make the
document the new baseline.

    run.py SERVER TOOLS OASDIFF CHROMIUM
"""

import argparse
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).parent.resolve()
ROOT = HERE.parent.parent
OPENAPI = ROOT / "docs/openapi.json"
ASYNCAPI = ROOT / "docs/websocket.json"
BASELINE = HERE / "openapi-v1.json"

# The linters must not send usage data.
ENVIRONMENT = os.environ | {"REDOCLY_TELEMETRY": "off"}


class Failed(Exception):
    """A check that found a problem."""


def run(*command, cwd=None):
    """Runs a command and returns its output. Fails with the output if the command fails."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=ENVIRONMENT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
    )
    if done.returncode != 0:
        raise Failed(done.stdout)
    return done.stdout


class Checks:
    def __init__(self, arguments):
        self.server = arguments.server.resolve()
        self.tools = arguments.tools.resolve()
        self.oasdiff = arguments.oasdiff
        self.chromium = arguments.chromium
        # The rules of Spectral name the file, so the linters see it next to their configuration.
        for file in [HERE / "redocly.yaml", HERE / "spectral.yaml", HERE / "asyncapi.mjs", OPENAPI, ASYNCAPI]:
            shutil.copy(file, self.tools)

    def tool(self, name):
        return self.tools / "node_modules/.bin" / name

    def redocly_accepts_openapi(self):
        run(self.tool("redocly"), "lint", "--config", "redocly.yaml", "openapi.json", cwd=self.tools)

    def spectral_accepts_openapi(self):
        command = ["lint", "--fail-severity", "hint", "--ruleset", "spectral.yaml", "openapi.json"]
        run(self.tool("spectral"), *command, cwd=self.tools)

    def asyncapi_parser_accepts_websocket(self):
        run("node", "asyncapi.mjs", "websocket.json", cwd=self.tools)

    def breaking(self, document):
        run(self.oasdiff, "breaking", "--fail-on", "WARN", BASELINE, document)

    def openapi_does_not_break_v1(self):
        if os.environ.get("BLUETICK_BLESS"):
            shutil.copy(OPENAPI, BASELINE)
        self.breaking(OPENAPI)

    def oasdiff_refuses_each_planted_change(self):
        """Without this, a check that compares nothing would pass."""
        messages = "/v1/conversations/{conversation_id}/messages"

        def removed_path(document):
            del document["paths"][messages]

        def removed_field(document):
            del document["components"]["schemas"]["SentBody"]["properties"]["seq"]
            document["components"]["schemas"]["SentBody"]["required"].remove("seq")

        def renamed_parameter(document):
            limit = [each for each in document["paths"][messages]["get"]["parameters"] if each["name"] == "limit"]
            limit[0]["name"] = "count"

        def new_required_field(document):
            schema = document["components"]["schemas"]["SendRequestBody"]
            schema["properties"]["device"] = {"type": "string"}
            schema["required"].append("device")

        with tempfile.TemporaryDirectory() as directory:
            for plant in [removed_path, removed_field, renamed_parameter, new_required_field]:
                document = json.loads(BASELINE.read_text())
                plant(document)
                planted = pathlib.Path(directory) / "planted.json"
                planted.write_text(json.dumps(document))
                try:
                    self.breaking(planted)
                except Failed as refused:
                    if "error" not in str(refused) or "changes" not in str(refused):
                        raise Failed(f"{plant.__name__}: oasdiff failed for another reason:\n{refused}") from None
                    continue
                raise Failed(f"oasdiff accepted {plant.__name__}")

    def generated_client_runs_the_calls_of_the_readme(self):
        client = self.tools / "client"
        shutil.rmtree(client, ignore_errors=True)
        [jar] = self.tools.glob("venv/lib/python3*/site-packages/openapi_generator_cli/openapi-generator.jar")
        command = ["java", "-XX:TieredStopAtLevel=1", "-jar", jar, "generate", "-g", "python", "-i", OPENAPI]
        properties = "generateSourceCodeOnly=true,packageName=bluetick_client"
        run(*command, "-o", client, "--additional-properties", properties)
        run(self.tools / "venv/bin/python", HERE / "client.py", self.server, client)

    def docs_page_works_under_its_policy(self):
        sys.path.insert(0, str(HERE.parent / "schema"))
        from run import Server

        with tempfile.TemporaryDirectory() as directory:
            server = Server(self.server, pathlib.Path(directory))
            try:
                server.wait_until_ready()
                run("node", HERE / "docs_page.mjs", server.url, self.chromium)
            finally:
                wrong = server.stop()
            if wrong or server.panics():
                raise Failed(wrong or "\n".join(server.panics()))

    def embedded_viewer_is_the_file_of_the_npm_package(self):
        [embedded] = (ROOT / "web/vendor").glob("api-reference-*.js.gz")
        version = embedded.name.removeprefix("api-reference-").removesuffix(".js.gz")
        with tarfile.open(self.tools / f"scalar-api-reference-{version}.tgz") as package:
            original = package.extractfile("package/dist/browser/standalone.js").read()
        if gzip.decompress(embedded.read_bytes()) != original:
            raise Failed(f"{embedded} differs from @scalar/api-reference@{version}")

    ALL = [
        redocly_accepts_openapi,
        spectral_accepts_openapi,
        asyncapi_parser_accepts_websocket,
        openapi_does_not_break_v1,
        oasdiff_refuses_each_planted_change,
        embedded_viewer_is_the_file_of_the_npm_package,
        generated_client_runs_the_calls_of_the_readme,
        docs_page_works_under_its_policy,
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("server", type=pathlib.Path)
    parser.add_argument("tools", type=pathlib.Path, help="the directory with the installed tools")
    parser.add_argument("oasdiff")
    parser.add_argument("chromium")
    checks = Checks(parser.parse_args())
    failed = 0
    for check in Checks.ALL:
        began = time.monotonic()
        try:
            check(checks)
            outcome = "ok"
        except (Failed, OSError, subprocess.TimeoutExpired, ValueError, KeyError) as problem:
            print(problem, file=sys.stderr)
            outcome = "FAILED"
            failed += 1
        print(f"test {check.__name__} ... {outcome} ({time.monotonic() - began:.1f} s)", flush=True)
    outcome = "FAILED" if failed else "ok"
    print(f"test result: {outcome}. {len(Checks.ALL) - failed} passed; {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
