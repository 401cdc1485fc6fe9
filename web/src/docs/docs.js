// The API reference. The viewer is the standalone file of @scalar/api-reference, which the server
// embeds. It shows the two documents of this server and loads nothing from another host.

const VIEWER = "/assets/api-reference-1.72.1.js";

// The viewer validates data with zod. Without this setting, zod tries to compile code with
// `new Function`, which the content security policy refuses.
globalThis.__zod_globalConfig = { jitless: true };

// Samples and calls need an absolute address; the documents have none.
const server = (url) => [{ url, description: "This server" }];

const CONFIGURATION = {
  sources: [
    { title: "HTTP", slug: "http", url: "/openapi.json", servers: server(location.origin) },
    {
      title: "WebSocket",
      slug: "websocket",
      url: "/asyncapi.json",
      servers: server(location.origin.replace(/^http/, "ws")),
    },
  ],
  // Everything below would load from, or send to, a host of the viewer's maker.
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  agent: { disabled: true },
  mcp: { disabled: true },
};

function show() {
  const place = document.getElementById("reference");
  place.replaceChildren();
  globalThis.Scalar.createApiReference(place, CONFIGURATION);
}

const script = document.createElement("script");
script.src = VIEWER;
script.onload = show;
script.onerror = () => {
  document.getElementById("status").textContent = "The reference could not be loaded.";
};
document.head.append(script);
