// Loads a module of the client in Node, which knows no TypeScript, by way of Vite.

import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

export async function load(path) {
  const file = fileURLToPath(new URL(`..${path}`, import.meta.url));
  // The SDK is taken as its sources too, which need not have been built.
  const resolve = { conditions: ["source"], noExternal: ["@bluetick/client"] };
  return (await runnerImport(file, { configFile: false, logLevel: "error", environments: { inline: { resolve } } })).module;
}
