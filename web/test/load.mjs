// Loads a TypeScript module of the client in Node through Vite.

import { fileURLToPath } from "node:url";
import { createServer, runnerImport } from "vite";

export async function load(path) {
  const file = fileURLToPath(new URL(`..${path}`, import.meta.url));
  // The SDK is loaded from its sources, so it does not have to be built.
  const resolve = { conditions: ["source"], noExternal: ["@bluetick/client"] };
  return (await runnerImport(file, { configFile: false, logLevel: "error", environments: { inline: { resolve } } })).module;
}

/**
 * Loads modules that import other modules on demand. The returned function loads one module; all of
 * them share their state. The test file ends the server with `close`.
 */
export async function startLoader() {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const server = await createServer({ root, configFile: false, logLevel: "error", appType: "custom", server: { middlewareMode: true, ws: false, watch: null }, optimizeDeps: { noDiscovery: true }, ssr: { resolve: { conditions: ["source"] }, noExternal: ["@bluetick/client"] } });
  return { load: (path) => server.ssrLoadModule(path), close: () => server.close() };
}
