// The WebSocket of the Node entry: bytes as RFC 6455 has them, and what it does with those that are not.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import test from "node:test";
import type { TestContext } from "node:test";
import type { Duplex } from "node:stream";
import { encodeFrame, FrameReader, OPCODE } from "../src/node/frames.ts";
import { NodeWebSocket } from "../src/node/websocket.ts";
import { seeded, until } from "./support/fixture.ts";

/** A frame as a server sends it: without a mask. */
function plain(opcode: number, payload: string | Buffer, isFinal = true): Buffer {
  const body = Buffer.from(payload);
  const first = (isFinal ? 0x80 : 0) | opcode;
  if (body.length < 126) return Buffer.concat([Buffer.from([first, body.length]), body]);
  const header = Buffer.alloc(10);
  header[0] = first;
  header[1] = 127;
  header.writeBigUInt64BE(BigInt(body.length), 2);
  return Buffer.concat([header, body]);
}

/** What a client's frame says. */
function unmasked(frame: Buffer): string {
  const short = (frame[1] as number) & 0x7f;
  const at = short < 126 ? 2 : short === 126 ? 4 : 10;
  const mask = frame.subarray(at, at + 4);
  return Buffer.from(frame.subarray(at + 4).map((byte, index) => byte ^ (mask[index & 3] as number))).toString();
}

test("frames of every length are masked and can be read back", () => {
  for (const length of [0, 1, 125, 126, 127, 65_535, 65_536, 100_000]) {
    const frame = encodeFrame(OPCODE.TEXT, Buffer.alloc(length, "x"));
    assert.equal((frame[1] as number) & 0x80, 0x80);
    assert.equal(unmasked(frame), "x".repeat(length));
  }
});

test("frames are whole however the bytes come in", () => {
  const random = seeded(7);
  const texts = ["", "short", "ä".repeat(200), "long".repeat(20_000)];
  const bytes = Buffer.concat(texts.map((text) => plain(OPCODE.TEXT, text)));
  const reader = new FrameReader(1_000_000);
  const found: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + 1 + Math.floor(random() * 3_000);
    reader.push(bytes.subarray(at, end));
    at = end;
    for (let frame = reader.next(); frame; frame = reader.next()) found.push(frame.payload.toString());
  }
  assert.deepEqual(found, texts);
});

test("what is not WebSocket, or too large, is refused before it is gathered", () => {
  const refused = (bytes: Buffer): number => {
    const reader = new FrameReader(1_000);
    reader.push(bytes);
    try {
      reader.next();
    } catch (error) {
      return (error as { code: number }).code;
    }
    return 0;
  };
  assert.equal(refused(Buffer.from([0xc1, 0])), 1002, "a reserved bit");
  assert.equal(refused(encodeFrame(OPCODE.TEXT, Buffer.from("masked"))), 1002);
  assert.equal(refused(Buffer.from([0x09, 0])), 1002, "a ping in parts");
  assert.equal(refused(plain(OPCODE.TEXT, "x".repeat(1_001)).subarray(0, 12)), 1009);
});

/** A server that upgrades and hands over the stream. */
async function peer(test: TestContext): Promise<{ url: string; stream: Promise<Duplex> }> {
  const server = createServer();
  const stream = new Promise<Duplex>((resolve) => {
    server.on("upgrade", (request, socket: Duplex) => {
      const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
      socket.write(`HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`);
      socket.on("error", () => {});
      resolve(socket);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  test.after(async () => {
    (await Promise.race([stream, null]))?.destroy();
    server.close();
  });
  return { url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`, stream };
}

test("messages in parts are joined, with a ping in between answered", async (t) => {
  const { url, stream } = await peer(t);
  const socket = new NodeWebSocket(url);
  const heard: unknown[] = [];
  socket.onmessage = ({ data }) => heard.push(data);
  const server = await stream;
  const answers: Buffer[] = [];
  server.on("data", (chunk: Buffer) => answers.push(chunk));
  const balloon = Buffer.from("🎈");
  server.write(Buffer.concat([plain(OPCODE.TEXT, balloon.subarray(0, 2), false), plain(OPCODE.PING, "are you there"), plain(OPCODE.CONTINUATION, balloon.subarray(2))]));
  await until(() => heard.length === 1 && answers.length > 0, "the message and the pong");
  assert.deepEqual(heard, ["🎈"]);
  assert.equal(unmasked(answers[0] as Buffer), "are you there");
  socket.close();
});

test("the code of a close is heard, and a connection cut off has none", async (t) => {
  for (const [send, expected] of [[plain(OPCODE.CLOSE, Buffer.from([0x0f, 0xa1])), 4001], [null, 1006], [plain(OPCODE.TEXT, Buffer.from([0xff])), 1007], [plain(OPCODE.BINARY, "x"), 1003]] as const) {
    const { url, stream } = await peer(t);
    const socket = new NodeWebSocket(url);
    let code = 0;
    socket.onclose = (event) => (code = event.code);
    const server = await stream;
    await until(() => socket.readyState === 1, "open");
    if (send) server.write(send);
    else server.destroy();
    await until(() => code !== 0, "closed");
    assert.equal(code, expected);
  }
});

test("nobody there, or somebody who does not upgrade: closed, and never open", async (t) => {
  const server = createServer((_, response) => response.end("no"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  for (const port of [(server.address() as AddressInfo).port, 9]) {
    const socket = new NodeWebSocket(`ws://127.0.0.1:${port}/`);
    let closed = 0;
    socket.onopen = () => assert.fail("open");
    socket.onclose = () => (closed += 1);
    await until(() => closed === 1, "closed");
  }
});
