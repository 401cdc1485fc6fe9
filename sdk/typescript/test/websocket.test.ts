// Tests of the WebSocket for Node: valid and invalid bytes by RFC 6455. Reconnects do not belong
// here.

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

/** Encodes a frame like a server, without a mask. */
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

/** Decodes the payload of a client's frame. */
function unmasked(frame: Buffer): string {
  const short = (frame[1] as number) & 0x7f;
  const at = short < 126 ? 2 : short === 126 ? 4 : 10;
  const mask = frame.subarray(at, at + 4);
  return Buffer.from(frame.subarray(at + 4).map((byte, index) => byte ^ (mask[index & 3] as number))).toString();
}

test("encoded_frames_of_every_length_are_masked_and_decode_to_their_text", () => {
  for (const length of [0, 1, 125, 126, 127, 65_535, 65_536, 100_000]) {
    const frame = encodeFrame(OPCODE.TEXT, Buffer.alloc(length, "x"));
    assert.equal((frame[1] as number) & 0x80, 0x80);
    assert.equal(unmasked(frame), "x".repeat(length));
  }
});

test("frames_split_at_random_bytes_are_read_whole", () => {
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

test("invalid_or_too_large_frame_is_refused_from_its_header", () => {
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

/** Starts a server that accepts the upgrade and returns the stream. */
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

test("fragmented_message_is_joined_and_a_ping_in_between_is_answered", async (t) => {
  const { url, stream } = await peer(t);
  const socket = new NodeWebSocket(url);
  const received: unknown[] = [];
  socket.onmessage = ({ data }) => received.push(data);
  const server = await stream;
  const answers: Buffer[] = [];
  server.on("data", (chunk: Buffer) => answers.push(chunk));
  const balloon = Buffer.from("🎈");
  server.write(Buffer.concat([plain(OPCODE.TEXT, balloon.subarray(0, 2), false), plain(OPCODE.PING, "are you there"), plain(OPCODE.CONTINUATION, balloon.subarray(2))]));
  await until(() => received.length === 1 && answers.length > 0, "the message and the pong");
  assert.deepEqual(received, ["🎈"]);
  assert.equal(unmasked(answers[0] as Buffer), "are you there");
  socket.close();
});

test("close_event_has_the_code_of_the_end_of_the_connection", async (t) => {
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

test("refused_connection_or_upgrade_closes_without_opening", async (t) => {
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
