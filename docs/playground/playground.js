// The page of docs/playground. algo.js holds the algorithms as WebAssembly: what
// is admitted is decided there, not here.
"use strict";

const SPAN = 20;       // seconds that are shown
const STEPS = 100;     // parts of the time that can be drawn
const TALLEST = 12;    // most requests in one part
const LANES = 4;       // most algorithms at once
const RESULTS = 5;     // numbers of a decision
const START = 1800000000 * 1e6; // us since the Unix epoch: an edge of every window

// The fields that each algorithm takes beside limit, in algo's order. "lasts" is not of
// the configuration: it is how long each request holds its slot.
const ALGORITHMS = [
  {name: "fixed_window", fields: ["window", "anchor"]},
  {name: "sliding_window_log", fields: ["window"]},
  {name: "sliding_window_counter", fields: ["window", "sub_windows"]},
  {name: "token_bucket", fields: ["window", "burst", "refill", "overflow", "max_wait"]},
  {name: "leaky_bucket", fields: ["window", "burst", "overflow", "max_delay"]},
  {name: "gcra", fields: ["window", "burst", "overflow", "max_wait"]},
  {name: "concurrency", fields: ["lasts"]},
];

const fieldsOf = limit => ALGORITHMS.find(a => a.name === limit.algorithm).fields;

// Shapes of traffic: requests in each part of the time.
const SHAPES = {
  "steady, then a burst": i => i >= 60 && i < 64 ? 8 : i % 3 === 0 ? 1 : 0,
  "a burst at a window's edge": i => i >= 23 && i < 27 ? 5 : 0,
  "evenly too much": i => 1,
  "growing": i => Math.round(i / 25),
  "waves": i => Math.max(0, Math.round(3 * Math.sin(i / 5))),
  "nothing": i => 0,
};

const $ = id => document.getElementById(id);
const traffic = new Array(STEPS).fill(0);
const lanes = [];
let cursor = 0;
let engine;

// load unpacks and starts the algorithms.
async function load() {
  const packed = Uint8Array.from(atob(ALGO_WASM), c => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(unpacked).arrayBuffer();
  const nothing = new Proxy({}, {get: () => () => 0});
  const {instance} = await WebAssembly.instantiate(bytes, {wasi_snapshot_preview1: nothing});
  instance.exports._initialize();
  return instance.exports;
}

// arrivals are the times of the drawn requests, in seconds.
function arrivals() {
  const times = [];
  const step = SPAN / STEPS;
  traffic.forEach((count, i) => {
    for (let j = 0; j < count; j++) times.push((i + (j + 0.5) / count) * step);
  });
  return times;
}

// decide plays times through a limit; null if its numbers are out of bounds.
function decide(limit, times) {
  const floats = (at, n) => new Float64Array(engine.memory.buffer, at, n);
  const index = ALGORITHMS.findIndex(a => a.name === limit.algorithm);
  const takes = name => ALGORITHMS[index].fields.includes(name);
  const micros = seconds => Math.round(seconds * 1000) * 1000;
  const steps = takes("refill") && limit.refill === "step";
  const queues = takes("overflow") && limit.overflow === "queue" && !steps;
  floats(engine.limitAt(), 10).set([
    index + 1, limit.limit, takes("window") ? micros(limit.window) : 0, takes("burst") ? limit.burst : 0,
    takes("anchor") && limit.anchor === "first_request" ? 1 : 0, takes("sub_windows") ? limit.sub_windows : 0,
    queues ? 1 : 0, queues ? micros(takes("max_wait") ? limit.max_wait : limit.max_delay) : 0,
    steps ? 1 : 0, takes("lasts") ? micros(limit.lasts) : 0,
  ]);
  const input = floats(engine.arrivalsAt(), 2 * times.length);
  times.forEach((t, i) => { input[2 * i] = START + Math.round(t * 1e6); input[2 * i + 1] = 1; });
  if (!engine.decide(times.length)) return null;
  const output = floats(engine.decidedAt(), RESULTS * times.length);
  return times.map((at, i) => {
    const [allowed, remaining, retry, delay, seconds] = output.slice(RESULTS * i, RESULTS * (i + 1));
    return {at, allowed: allowed === 1, remaining, retry: retry / 1e6, delay: delay / 1e6, seconds};
  });
}

// told are the header fields of a response by which a client learns of a decision (../headers.md).
function told(decision, limit) {
  const t = decision.seconds ? `;t=${decision.seconds}` : "";
  const retry = decision.allowed ? "" : `, Retry-After: ${limit.algorithm === "concurrency" ? 1 : Math.max(1, Math.ceil(decision.retry))}`;
  return `X-RateLimit-Remaining: ${decision.remaining}, RateLimit: "per-address";r=${decision.remaining}${t}${retry}`;
}

// most is the most that left within any stretch of a window's length.
function most(decisions, window) {
  const left = decisions.filter(d => d.allowed).map(d => d.at + d.delay).sort((a, b) => a - b);
  let from = 0, best = 0;
  left.forEach((t, i) => {
    while (left[from] <= t - window + 1e-9) from++;
    best = Math.max(best, i - from + 1);
  });
  return best;
}

// read is a lane's limit, as the form has it.
function read(form) {
  const number = name => Number(form.elements[name].value);
  return {
    algorithm: form.elements.algorithm.value, limit: number("limit"), window: number("window"), burst: number("burst"),
    anchor: form.elements.anchor.value, sub_windows: number("sub_windows"), overflow: form.elements.overflow.value, max_delay: number("max_delay"),
    refill: form.elements.refill.value, max_wait: number("max_wait"), lasts: number("lasts"),
  };
}

// duration writes seconds as the configuration does.
function duration(seconds) {
  const millis = Math.round(seconds * 1000);
  return millis % 1000 ? `${millis}ms` : `${millis / 1000}s`;
}

// configuration is a lane's limit as the plugin's JSON.
function configuration(limit) {
  const fields = fieldsOf(limit);
  const out = {algorithm: limit.algorithm, limit: limit.limit};
  if (fields.includes("window")) out.window = duration(limit.window);
  if (fields.includes("burst") && limit.burst !== limit.limit) out.burst = limit.burst;
  if (fields.includes("anchor") && limit.anchor !== "clock") out.anchor = limit.anchor;
  if (fields.includes("sub_windows") && limit.sub_windows !== 1) out.sub_windows = limit.sub_windows;
  const steps = fields.includes("refill") && limit.refill === "step";
  if (steps) out.refill = "step";
  if (fields.includes("overflow") && limit.overflow === "queue" && !steps) {
    const longest = fields.includes("max_wait") ? "max_wait" : "max_delay";
    out.overflow = "queue";
    out[longest] = duration(limit[longest]);
  }
  const line = JSON.stringify(out).replace(/":/g, "\": ").replace(/,"/g, ", \"");
  return `{
  "redis": {"cluster": "redis"},
  "rules": [
    {"name": "per-address",
     "key": [{"client_ip": {"v6_prefix": 64}}],
     "limits": [${line}]}
  ]
}`;
}

// addLane shows one more algorithm.
function addLane(limit) {
  const element = $("lane").content.firstElementChild.cloneNode(true);
  const form = element.querySelector("form");
  for (const a of ALGORITHMS) form.elements.algorithm.add(new Option(a.name));
  for (const [name, value] of Object.entries(limit)) form.elements[name].value = value;
  const lane = {element, form, result: element.querySelector(".result"), canvas: element.querySelector("canvas")};
  form.addEventListener("input", update);
  form.addEventListener("submit", event => event.preventDefault());
  form.elements.remove.addEventListener("click", () => {
    lanes.splice(lanes.indexOf(lane), 1);
    element.remove();
    update();
    $("add").focus();
  });
  lanes.push(lane);
  $("lanes").append(element);
  return lane;
}

// colours are those of the style sheet, for the canvases.
function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = name => style.getPropertyValue(name).trim();
  return {admitted: of("--admitted"), rejected: of("--rejected"), room: of("--room"), line: of("--line"), note: of("--note"), focus: of("--focus")};
}

// sharp clears a canvas, and has it draw in the screen's own pixels.
function sharp(canvas, height) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth || 1000;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = `${height}px`;
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  return {c, width, height};
}

function drawTraffic(colour) {
  const {c, width, height} = sharp($("traffic"), 120);
  const step = width / STEPS, unit = (height - 24) / TALLEST;
  c.fillStyle = colour.admitted;
  traffic.forEach((count, i) => c.fillRect(i * step + 0.5, height - 20 - count * unit, step - 1, count * unit));
  axis(c, width, height, colour, SPAN / 4);
  c.strokeStyle = colour.focus;
  c.lineWidth = 2;
  c.strokeRect(cursor * step, 2, step, height - 22);
}

// axis writes the time below a plot.
function axis(c, width, height, colour, every) {
  c.strokeStyle = colour.line;
  c.fillStyle = colour.note;
  c.font = "12px system-ui, sans-serif";
  for (let t = 0; t <= SPAN; t += every) {
    const x = Math.min(width - 1, t / SPAN * width);
    c.beginPath();
    c.moveTo(x, 0);
    c.lineTo(x, height - 18);
    c.stroke();
    c.textAlign = t === 0 ? "left" : t >= SPAN ? "right" : "center";
    c.fillText(`${Number(t.toFixed(1))} s`, x, height - 5);
  }
}

// rooms are the times at which room changes, and how much there is from then on: with
// each decision and, where slots are held, with each request that ends.
function rooms(decisions, limit) {
  const changes = decisions.map(d => ({at: d.at, room: d.remaining}));
  if (!fieldsOf(limit).includes("lasts")) return changes;
  const ends = decisions.filter(d => d.allowed).map(d => ({at: d.at + limit.lasts, ends: true}));
  const micros = change => Math.round(change.at * 1e6);
  const all = [...ends, ...changes].sort((a, b) => micros(a) - micros(b) || !!b.ends - !!a.ends); // a slot is given back first
  let room = limit.limit;
  for (const change of all) room = change.room = change.ends ? room + 1 : change.room;
  return all;
}

// drawLane shows decisions as dots, stacked by the time at which they leave.
function drawLane(lane, decisions, limit, colour) {
  const {c, width, height} = sharp(lane.canvas, 132);
  const ground = height - 20, x = t => t / SPAN * width;
  const columns = Math.max(40, Math.floor(width / 8)), size = width / columns;
  const capacity = fieldsOf(limit).includes("burst") ? limit.burst : limit.limit;
  c.fillStyle = colour.room;
  rooms(decisions, limit).forEach((change, i, all) => {
    const until = i + 1 < all.length ? all[i + 1].at : SPAN;
    const tall = Math.min(1, change.room / Math.max(1, capacity)) * (ground - 8);
    c.fillRect(x(change.at), ground - tall, x(until) - x(change.at), tall);
  });
  axis(c, width, height, colour, SPAN / 4);
  const stacked = new Array(columns).fill(0);
  const put = (t, draw) => {
    const column = Math.min(columns - 1, Math.floor(t / SPAN * columns));
    const y = ground - (stacked[column]++ + 0.5) * Math.min(size, 8);
    if (t <= SPAN && y > 2) draw((column + 0.5) * size, y, Math.min(size, 8) * 0.38);
  };
  const disc = (fill) => (cx, cy, r) => {
    c.beginPath();
    c.arc(cx, cy, r, 0, 7);
    if (fill) { c.fillStyle = colour.admitted; c.fill(); } else { c.strokeStyle = colour.admitted; c.lineWidth = 1.3; c.stroke(); }
  };
  const cross = (cx, cy, r) => {
    c.strokeStyle = colour.rejected;
    c.lineWidth = 1.6;
    c.beginPath();
    c.moveTo(cx - r, cy - r); c.lineTo(cx + r, cy + r); c.moveTo(cx + r, cy - r); c.lineTo(cx - r, cy + r);
    c.stroke();
  };
  for (const d of decisions) if (d.allowed) put(d.at + d.delay, disc(true));
  for (const d of decisions) if (d.allowed && d.delay > 0) put(d.at, disc(false));
  for (const d of decisions) if (!d.allowed) put(d.at, cross);
}

// showLane decides and draws one lane.
function showLane(lane, times, colour) {
  const limit = read(lane.form);
  const fields = fieldsOf(limit);
  for (const label of lane.form.querySelectorAll("[data-of]")) {
    const of = label.dataset.of;
    const steps = fields.includes("refill") && limit.refill === "step";
    const queues = limit.overflow === "queue" && !steps;
    label.hidden = !fields.includes(of) || of.startsWith("max_") && !queues || of === "overflow" && steps;
  }
  const decisions = lane.form.checkValidity() ? decide(limit, times) : null;
  lane.decisions = decisions;
  if (!decisions) {
    lane.result.innerHTML = "<span class=bad>These numbers do not go together.</span>";
    sharp(lane.canvas, 132);
    return;
  }
  const admitted = decisions.filter(d => d.allowed).length, held = decisions.filter(d => d.delay > 0).length;
  const busiest = fields.includes("lasts") ? `${most(decisions, limit.lasts)} at once` : `${most(decisions, limit.window)} within any ${duration(limit.window)}`;
  const text = `${admitted} of ${decisions.length} admitted, ${decisions.length - admitted} rejected` + (held ? `, ${held} of them held` : "") + `; at most ${busiest}` + (decisions.length ? `. The last response has ${told(decisions.at(-1), limit)}` : "");
  lane.result.textContent = text;
  lane.canvas.setAttribute("aria-label", `${limit.algorithm}: ${text}`);
  drawLane(lane, decisions, limit, colour);
}

function update() {
  const times = arrivals(), colour = colours();
  $("requests").textContent = times.length;
  $("traffic").setAttribute("aria-valuenow", traffic[cursor]);
  $("traffic").setAttribute("aria-valuetext", `at ${(cursor * SPAN / STEPS).toFixed(1)} seconds: ${traffic[cursor]} requests`);
  drawTraffic(colour);
  for (const lane of lanes) {
    showLane(lane, times, colour);
    lane.form.elements.remove.hidden = lanes.length <= 2;
  }
  $("add").disabled = lanes.length >= LANES;
  choose();
}

function redraw() {
  update();
  updatePool();
}

// choose lists the lanes and the pool, and shows the configuration of one.
function choose() {
  const which = $("which"), pooled = which.value === "pool";
  const chosen = pooled ? lanes.length : Math.max(0, Math.min(which.selectedIndex, lanes.length - 1));
  which.replaceChildren(...lanes.map((lane, i) => new Option(`${i + 1}: ${lane.form.elements.algorithm.value}`)), new Option("the pool", "pool"));
  which.selectedIndex = chosen;
  $("json").textContent = pooled ? poolConfiguration(readPool($("pool"))) : configuration(read(lanes[chosen].form));
}

function setShape(name) {
  for (let i = 0; i < STEPS; i++) traffic[i] = Math.max(0, Math.min(TALLEST, SHAPES[name](i)));
  update();
}

function setCount(i, count) {
  cursor = Math.max(0, Math.min(STEPS - 1, i));
  traffic[cursor] = Math.max(0, Math.min(TALLEST, count));
  $("shape").value = "drawn";
  update();
}

// draw follows the pointer.
function draw(event) {
  const box = $("traffic").getBoundingClientRect();
  const i = Math.floor((event.clientX - box.left) / box.width * STEPS);
  setCount(i, Math.round((box.bottom - 20 - event.clientY) / (box.height - 24) * TALLEST));
}

function keys(event) {
  const moves = {ArrowLeft: -1, ArrowRight: 1, PageUp: 10, PageDown: -10, Home: -STEPS, End: STEPS};
  const changes = {ArrowUp: 1, ArrowDown: -1, Delete: -TALLEST};
  if (event.key in moves) {
    cursor = Math.max(0, Math.min(STEPS - 1, cursor + moves[event.key]));
    update();
  } else if (event.key in changes) {
    setCount(cursor, traffic[cursor] + changes[event.key]);
  } else {
    return;
  }
  event.preventDefault();
}

async function copy() {
  const text = $("json").textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection().selectAllChildren($("json"));
    document.execCommand("copy");
  }
  $("copied").textContent = "Copied.";
  setTimeout(() => { $("copied").textContent = ""; }, 2000);
}

async function start() {
  engine = await load();
  for (const name of [...Object.keys(SHAPES), "drawn"]) $("shape").add(new Option(name));
  const common = {limit: 5, window: 5, burst: 5, anchor: "clock", sub_windows: 1, refill: "continuous", overflow: "reject", max_delay: 10, max_wait: 5, lasts: 1};
  addLane({...common, algorithm: "fixed_window"});
  addLane({...common, algorithm: "gcra"});
  $("shape").addEventListener("change", () => { if ($("shape").value in SHAPES) setShape($("shape").value); });
  $("traffic").addEventListener("keydown", keys);
  $("traffic").addEventListener("pointerdown", event => { $("traffic").setPointerCapture(event.pointerId); draw(event); });
  $("traffic").addEventListener("pointermove", event => { if (event.buttons) draw(event); });
  $("add").addEventListener("click", () => {
    const taken = lanes.map(lane => lane.form.elements.algorithm.value);
    const next = ALGORITHMS.find(a => !taken.includes(a.name)) || ALGORITHMS[0];
    const lane = addLane({...common, algorithm: next.name});
    update();
    lane.form.elements.algorithm.focus();
  });
  addSenders();
  $("pool").addEventListener("input", updatePool);
  $("pool").addEventListener("submit", event => event.preventDefault());
  $("which").addEventListener("change", choose);
  $("copy").addEventListener("click", copy);
  $("theme").addEventListener("change", () => { document.documentElement.dataset.theme = $("theme").value; redraw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("resize", redraw);
  setShape(Object.keys(SHAPES)[0]);
  updatePool();
  document.body.dataset.ready = "yes";
}

start();
