// Measures how smooth the page is while many messages arrive in the open conversation. Needs
// Chromium, and a running server that serves the page with its limits disabled.
//
//   BLUETICK_LIMITS__SENDS_PER_SECOND=0 BLUETICK_LIMITS__REQUESTS_PER_SECOND=0 bluetick serve …
//   node web/bench/frames.mjs http://127.0.0.1:8080 [messages per second = 200] [phase seconds = 10]
//
// In each phase (resting at the end, scrolling, typing) it logs the gaps between animation frames,
// Chromium's long tasks (over 50 ms on the main thread) and, from a trace, the CPU time of the main
// thread.

import { Agent, request } from "node:http";
import { randomUUID } from "node:crypto";
import { chromium } from "playwright-core";

const [url = "http://127.0.0.1:8080", rateText = "200", secondsText = "10"] = process.argv.slice(2);
const rate = Number(rateText);
const seconds = Number(secondsText);
const agent = new Agent({ keepAlive: true, maxSockets: 32 });

function call(method, path, token, body) {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}) };
    const asked = request(`${url}/v1${path}`, { method, headers, agent }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part) => (text += part));
      response.on("end", () => (response.statusCode < 300 ? resolve(text && JSON.parse(text)) : reject(new Error(`${path}: ${response.statusCode} ${text}`))));
    });
    asked.on("error", reject).end(body && JSON.stringify(body));
  });
}

const WORDS = "the river bends twice before it meets the old stone bridge and every boat slows down there".split(" ");
const textOf = (count) => `${count} ${WORDS.slice(0, 3 + (count % WORDS.length)).join(" ")}`;

/** Sends at a steady rate until stopped. Returns how many messages the server stored. */
function sendSteadily(token, conversation) {
  const startedAt = performance.now();
  let sent = 0;
  let stored = 0;
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - startedAt) / 1_000) * rate);
    for (; sent < due; sent++) {
      call("POST", `/conversations/${conversation}/messages`, token, { message_id: randomUUID(), content: textOf(sent) }).then(() => stored++, (error) => console.error(error.message));
    }
  }, 5);
  return () => {
    clearInterval(timer);
    return { stored, perSecond: stored / ((performance.now() - startedAt) / 1_000) };
  };
}

/** Runs in the page. */
function startLog() {
  const log = { gaps: [], longTasks: [], last: performance.now(), isRunning: true };
  const frame = (now) => {
    log.gaps.push(now - log.last);
    log.last = now;
    if (log.isRunning) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  log.observer = new PerformanceObserver((list) => log.longTasks.push(...list.getEntries().map(({ duration }) => duration)));
  log.observer.observe({ type: "longtask" });
  globalThis.frameLog = log;
}

/** Runs in the page. */
function stopLog() {
  const { gaps, longTasks, observer } = globalThis.frameLog;
  globalThis.frameLog.isRunning = false;
  observer.disconnect();
  const { scrollHeight, scrollTop, clientHeight } = document.querySelector("[aria-label=Messages]");
  const elements = document.querySelectorAll("*").length;
  return { gaps: gaps.slice(1), longTasks, elements, heap: performance.memory?.usedJSHeapSize ?? 0, belowPx: scrollHeight - scrollTop - clientHeight };
}

const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;

/**
 * The CPU time of the page's main thread: its share of the time, and its longest task. Other load on
 * the machine does not change CPU time.
 */
function mainThread(events) {
  const isMain = new Set(events.filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain").map(({ pid, tid }) => `${pid}/${tid}`));
  const tasks = events.filter(({ name, ph, pid, tid }) => ph === "X" && name === "RunTask" && isMain.has(`${pid}/${tid}`));
  const from = Math.min(...tasks.map(({ ts }) => ts));
  const to = Math.max(...tasks.map(({ ts, dur = 0 }) => ts + dur));
  const onProcessor = tasks.map(({ tdur = 0 }) => tdur);
  return { busy: onProcessor.reduce((sum, each) => sum + each, 0) / (to - from), longestMs: Math.max(...onProcessor) / 1_000 };
}

const CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline", "toplevel", "__metadata"];

async function phase(name, browser, page, startSending, act) {
  const stop = startSending();
  await browser.startTracing(page, { categories: CATEGORIES });
  // Starting the trace costs time that is not the page's.
  await page.waitForTimeout(1_000);
  await page.evaluate(startLog);
  await act(Date.now() + seconds * 1_000);
  const { gaps, longTasks, elements, heap, belowPx } = await page.evaluate(stopLog);
  const { stored, perSecond } = stop();
  const main = mainThread(JSON.parse((await browser.stopTracing()).toString()).traceEvents);
  const sorted = gaps.toSorted((one, other) => one - other);
  const total = gaps.reduce((sum, gap) => sum + gap, 0);
  const figures = {
    phase: name,
    messages: stored,
    "messages/s": Math.round(perSecond),
    frames: gaps.length,
    "frames/s": (gaps.length / (total / 1_000)).toFixed(1),
    "gap p50 ms": at(sorted, 0.5).toFixed(1),
    "gap p95 ms": at(sorted, 0.95).toFixed(1),
    "gap p99 ms": at(sorted, 0.99).toFixed(1),
    "gap max ms": at(sorted, 1).toFixed(1),
    "gaps over 33 ms": gaps.filter((gap) => gap > 33.4).length,
    "long tasks": longTasks.length,
    "longest ms": Math.max(0, ...longTasks).toFixed(0),
    "longest task CPU ms": main.longestMs.toFixed(1),
    "main thread CPU": `${(main.busy * 100).toFixed(0)} %`,
    elements,
    "px from the end": Math.round(belowPx),
    "heap MB": (heap / 1e6).toFixed(1),
  };
  console.log(JSON.stringify(figures));
  return figures;
}

const suffix = randomUUID().slice(0, 8);
const users = [`reader-${suffix}`, `writer-${suffix}`];
const password = randomUUID();
const [, writer] = await Promise.all(users.map((user_id) => call("POST", "/signup", null, { user_id, password })));
const { conversation_id } = await call("POST", "/conversations", writer.token, { kind: "direct", peer: users[0] });
for (let count = 0; count < 300; count++) await call("POST", `/conversations/${conversation_id}/messages`, writer.token, { message_id: randomUUID(), content: textOf(count) });

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-precise-memory-info"];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: flags });
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
await page.goto(url);
await page.getByLabel("User ID").fill(users[0]);
await page.getByLabel("Password", { exact: true }).fill(password);
await page.getByRole("button", { name: "Log in", exact: true }).click();
await page.locator(`[data-conversation-id="${conversation_id}"] a`).click();
await page.locator("[data-seq]").first().waitFor();

// The list opens at the unread divider, and the first phase measures its end.
const jump = page.getByRole("button", { name: /Jump to latest/ });
async function jumpToLatest() {
  await jump.click();
  await jump.waitFor({ state: "hidden" });
}
await jumpToLatest();

const startSending = () => sendSteadily(writer.token, conversation_id);
const wait = (until) => page.waitForTimeout(Math.max(0, until - Date.now()));

await phase("resting", browser, page, startSending, wait);
await phase("scrolling", browser, page, startSending, async (until) => {
  await page.locator("[aria-label=Messages]").hover();
  for (let turn = 0; Date.now() < until; turn++) {
    await page.mouse.wheel(0, turn % 40 < 20 ? -120 : 120);
    await page.waitForTimeout(16);
  }
});
await jumpToLatest();
await phase("typing", browser, page, startSending, async (until) => {
  const field = page.getByRole("textbox", { name: /^Message to/ });
  await field.focus();
  while (Date.now() < until) await page.keyboard.type(`${WORDS[Math.floor(Math.random() * WORDS.length)]} `, { delay: 40 });
});
await browser.close();
agent.destroy();
