// A process that stores one message in its outbox and is killed before it can send it. Assertions
// do not belong here; `persistence.test.ts` has them.

import { BluetickClient, fileStorage } from "../../src/node/index.ts";

const [url, token, userId, directory, conversationId] = process.argv.slice(2) as [string, string, string, string, string];

const refuse = (): never => {
  throw new Error("no network");
};
class NoSocket {
  constructor() {
    refuse();
  }
}

const storage = fileStorage(directory);
const client = new BluetickClient({ url, token, userId, storage, webSocket: NoSocket as never, fetch: refuse });
await client.start();
client.conversation(conversationId).send("last words");
while ((await storage.read(`${userId} at ${url}`, "outbox")).size === 0);
process.kill(process.pid, "SIGKILL");
