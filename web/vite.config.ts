// Builds the pages into dist/, which is committed: the same sources give the same bytes.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defaultClientConditions, defineConfig, type Plugin } from "vite";
import solid from "vite-plugin-solid";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** Writes sw.js with the hashed names of the files that the page needs without a network. */
function serviceWorker(): Plugin {
  return {
    name: "service-worker",
    apply: "build",
    enforce: "post",
    generateBundle(_options, bundle) {
      const page = bundle["index.html"];
      if (page?.type !== "asset") throw new Error("the page is not in the bundle");
      // The PNG icons are for the home screen of a phone, which stores them itself.
      const linked = (String(page.source).match(/\/assets\/[^"]+/g) ?? []).filter((file) => !file.endsWith(".png"));
      // Chunks that load on demand: dialogs and languages.
      const onDemand = Object.values(bundle).filter((file) => file.type === "chunk" && file.isDynamicEntry);
      const files = ["/", ...new Set([...linked, ...onDemand.map(({ fileName }) => `/${fileName}`)])];
      const version = createHash("sha256").update(String(page.source)).digest("hex").slice(0, 12);
      const source = readFileSync(here("src/sw.js"), "utf8")
        .replace("__VERSION__", version)
        .replace("__FILES__", JSON.stringify(files));
      this.emitFile({ type: "asset", fileName: "sw.js", source });
    },
  };
}

/** Gives virtua a small replacement of `solid-js/web`; see the module for the reason. */
function smallDynamic(): Plugin {
  return {
    name: "small-dynamic",
    apply: "build",
    enforce: "pre",
    resolveId: (source, importer) => (source === "solid-js/web" && importer?.includes("/virtua/") ? here("src/components/virtua-web.ts") : null),
  };
}

export default defineConfig({
  root: here("."),
  plugins: [smallDynamic(), solid(), serviceWorker()],
  resolve: { conditions: ["source", ...defaultClientConditions] },
  build: {
    target: "es2022",
    cssTarget: "esnext",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: true,
    sourcemap: false,
    rollupOptions: { input: { index: here("index.html"), docs: here("docs.html") } },
  },
  server: { proxy: { "/v1": { target: process.env.BLUETICK_URL ?? "http://127.0.0.1:8080", ws: true } } },
});
