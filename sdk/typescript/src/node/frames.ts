// The bytes of WebSocket frames (RFC 6455), as far as a client for text messages needs them.
// Extensions and connections do not belong here.

import { randomBytes } from "node:crypto";

/** The opcodes of WebSocket frames (RFC 6455, section 5.2). */
export const OPCODE = { CONTINUATION: 0, TEXT: 1, BINARY: 2, CLOSE: 8, PING: 9, PONG: 10 } as const;

export interface Frame {
  readonly isFinal: boolean;
  readonly opcode: number;
  readonly payload: Buffer;
}

/** The bytes are not WebSocket frames, or a frame is too large. `code` is the close code. */
export class FrameError extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** Encodes a whole frame, masked as a client must do. */
export function encodeFrame(opcode: number, payload: Buffer): Buffer {
  const { length } = payload;
  const header = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  header[0] = 0x80 | opcode;
  if (length < 126) header[1] = 0x80 | length;
  else if (length < 65_536) {
    header[1] = 0x80 | 126;
    header.writeUInt16BE(length, 2);
  } else {
    header[1] = 0x80 | 127;
    header.writeBigUInt64BE(BigInt(length), 2);
  }
  const mask = randomBytes(4);
  const masked = Buffer.allocUnsafe(length);
  for (let index = 0; index < length; index += 1) masked[index] = (payload[index] as number) ^ (mask[index & 3] as number);
  return Buffer.concat([header, mask, masked]);
}

/** Splits a stream of bytes into frames. */
export class FrameReader {
  #limitBytes: number;
  #chunks: Buffer[] = [];
  #size = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
  }

  /**
   * Returns the next frame, or null until more bytes arrive. Throws a `FrameError` for invalid
   * bytes.
   */
  next(): Frame | null {
    if (this.#size < 2) return null;
    const head = this.#peek(Math.min(this.#size, 10));
    const [first, second] = [head[0] as number, head[1] as number];
    const opcode = first & 0x0f;
    const isFinal = (first & 0x80) !== 0;
    if ((first & 0x70) !== 0) throw new FrameError(1002, "a reserved bit is set");
    if ((second & 0x80) !== 0) throw new FrameError(1002, "a masked frame from a server");
    const short = second & 0x7f;
    if (opcode >= 8 && (!isFinal || short > 125)) throw new FrameError(1002, "a fragmented or long control frame");
    const headerLength = short < 126 ? 2 : short === 126 ? 4 : 10;
    if (head.length < headerLength) return null;
    const length = short < 126 ? short : short === 126 ? head.readUInt16BE(2) : Number(head.readBigUInt64BE(2));
    if (length > this.#limitBytes) throw new FrameError(1009, "a frame is too large");
    if (this.#size < headerLength + length) return null;
    const payload = this.#peek(headerLength + length).subarray(headerLength);
    this.#drop(headerLength + length);
    return { isFinal, opcode, payload };
  }

  /** Returns the first bytes in one buffer. Chunks are joined once, not at every call. */
  #peek(length: number): Buffer {
    if ((this.#chunks[0]?.length ?? 0) < length) this.#chunks = [Buffer.concat(this.#chunks)];
    return (this.#chunks[0] as Buffer).subarray(0, length);
  }

  #drop(length: number): void {
    const rest = (this.#chunks[0] as Buffer).subarray(length);
    this.#size -= length;
    if (rest.length === 0) this.#chunks.shift();
    else this.#chunks[0] = rest;
  }
}
