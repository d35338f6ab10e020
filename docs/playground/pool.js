// The part of the page that shows a pool: nine tenants and a flooder share one limit. Who is
// admitted is decided in algo.js, by the limits that the configuration names.
"use strict";

const SENDERS = 10;         // nine tenants, then the flooder
const FLOODER = SENDERS - 1;
const FLOOD = [5, 15];      // seconds from and to which the flooder sends
const SHOWN = 40;           // parts of the time in a row of the picture

const nameOf = sender => sender === FLOODER ? "flooder" : `tenant ${sender + 1}`;

// random is a sequence of numbers below 1, the same one each time (mulberry32).
function random(seed) {
  return () => {
    seed = seed + 0x6d2b79f5 | 0;
    let t = Math.imul(seed ^ seed >>> 15, seed | 1);
    t = t + Math.imul(t ^ t >>> 7, t | 61) ^ t;
    return ((t ^ t >>> 14) >>> 0) / 2 ** 32;
  };
}

// crowd are the requests of all senders: a tenant's come evenly, give or take, the flooder's at random.
function crowd(pool) {
  const requests = [];
  for (let sender = 0; sender < SENDERS; sender++) {
    const next = random(sender + 1);
    const [from, to] = sender === FLOODER ? FLOOD : [0, SPAN];
    const count = Math.round((to - from) * (sender === FLOODER ? pool.flooder : pool.tenant));
    for (let i = 0; i < count; i++) {
      const at = sender === FLOODER ? next() : (i + next()) / count;
      requests.push({sender, micros: Math.floor((from + at * (to - from)) * 1e6)});
    }
  }
  return requests.sort((a, b) => a.micros - b.micros || a.sender - b.sender);
}

// readPool is what the form says.
function readPool(form) {
  const pool = {};
  for (const e of form.elements) pool[e.name] = e.type === "number" ? Number(e.value) : e.value;
  return {...pool, ceilings: /ceiling|both/.test(pool.sharing), guarantees: /guarantee|both/.test(pool.sharing)};
}

// admit says of each request whether the pool admits it; null if the pool's numbers are out of bounds.
function admit(pool, requests) {
  const floats = (at, n) => new Float64Array(engine.memory.buffer, at, n);
  const own = pool.guarantees ? [pool.guarantee, pool.guarantee_burst] : [0, 0];
  floats(engine.poolAt(), 4).set([pool.limit, pool.burst, ...own]);
  const class_of = sender => sender === FLOODER ? pool.flooder_class : pool.tenant_class;
  floats(engine.ceilingsAt(), SENDERS).forEach((_, i, all) => { all[i] = pool.ceilings ? pool[class_of(i)] : 0; });
  const input = floats(engine.arrivalsAt(), 2 * requests.length);
  requests.forEach((r, i) => { input[2 * i] = START + r.micros; input[2 * i + 1] = r.sender; });
  if (!engine.share(requests.length)) return null;
  const output = floats(engine.decidedAt(), RESULTS * requests.length);
  return requests.map((_, i) => output[RESULTS * i] === 1);
}

// poolConfiguration is the pool as the plugin's JSON.
function poolConfiguration(pool) {
  const ceiling = pool.ceilings ? `,
        "ceiling": {"source": {"header": "x-priority"}, "default": "bulk",
                    "values": {"critical": ${pool.critical}, "normal": ${pool.normal}, "bulk": ${pool.bulk}}}` : "";
  const guarantee = pool.guarantees ? `,
       {"name": "tenant", "algorithm": "gcra", "limit": ${pool.guarantee}, "window": "1s", "burst": ${pool.guarantee_burst},
        "per": [{"header": "x-tenant"}], "guarantee": true}` : "";
  return `{
  "redis": {"cluster": "redis"},
  "rules": [
    {"name": "fleet",
     "key": [],
     "limits": [
       {"name": "pool", "algorithm": "gcra", "limit": ${pool.limit}, "window": "1s", "burst": ${pool.burst}${ceiling}}${guarantee}]}
  ]
}`;
}

// addSenders makes a row of the table for each sender.
function addSenders() {
  for (let sender = 0; sender < SENDERS; sender++) {
    const row = $("senders").insertRow();
    row.append(Object.assign(document.createElement("th"), {scope: "row", textContent: nameOf(sender)}));
    const canvas = row.insertCell().appendChild(document.createElement("canvas"));
    canvas.setAttribute("role", "img");
    for (let i = 0; i < 3; i++) row.insertCell();
  }
}

// drawSender shows which part of a sender's requests was admitted, over time.
function drawSender(canvas, parts, colour) {
  const {c, width, height} = sharp(canvas, 22), step = width / SHOWN;
  parts.forEach((part, i) => {
    if (!part.sent) return;
    const tall = height * part.admitted / part.sent;
    c.fillStyle = colour.rejected;
    c.fillRect(i * step, 0, step - 1, height - tall);
    c.fillStyle = colour.admitted;
    c.fillRect(i * step, height - tall, step - 1, tall);
  });
}

const percent = (part, of) => `${of ? Math.round(100 * part / of) : 0} %`;

// showSender fills in one row.
function showSender(sender, requests, admitted, colour) {
  const parts = Array.from({length: SHOWN}, () => ({sent: 0, admitted: 0}));
  let sent = 0, passed = 0;
  requests.forEach((r, i) => {
    if (r.sender !== sender) return;
    const part = parts[Math.floor(r.micros / 1e6 / SPAN * SHOWN)];
    part.sent++; sent++;
    if (admitted[i]) { part.admitted++; passed++; }
  });
  const [, picture, ...numbers] = $("senders").rows[sender].cells;
  [sent, passed, percent(sent - passed, sent)].forEach((text, i) => { numbers[i].textContent = text; });
  picture.firstChild.setAttribute("aria-label", `${nameOf(sender)}: admitted in each second: ` +
    Array.from({length: SPAN}, (_, i) => parts[2 * i].admitted + parts[2 * i + 1].admitted).join(", "));
  drawSender(picture.firstChild, parts, colour);
}

// inFlood counts requests while the flooder sends.
function inFlood(requests, of) {
  return requests.filter((r, i) => r.micros >= FLOOD[0] * 1e6 && r.micros < FLOOD[1] * 1e6 && of(r, i)).length;
}

// updatePool decides and draws the pool.
function updatePool() {
  const form = $("pool"), pool = readPool(form), colour = colours();
  for (const e of form.querySelectorAll("[data-of]")) e.hidden = !pool[e.dataset.of];
  const valid = form.checkValidity();
  const requests = valid ? crowd(pool) : [], admitted = valid ? admit(pool, requests) : null;
  Object.assign(form, {requests, admitted});
  choose();
  $("shares").hidden = !admitted;
  if (!admitted) {
    $("shared").innerHTML = "<span class=bad>These numbers do not go together.</span>";
    return;
  }
  for (let sender = 0; sender < SENDERS; sender++) showSender(sender, requests, admitted, colour);
  const tenants = r => r.sender !== FLOODER, seconds = FLOOD[1] - FLOOD[0];
  const sent = inFlood(requests, tenants), got = inFlood(requests, (r, i) => admitted[i] && tenants(r));
  const used = inFlood(requests, (r, i) => admitted[i]) / seconds;
  const fits = SENDERS * pool.guarantee <= pool.limit && SENDERS * pool.guarantee_burst <= pool.burst;
  $("shared").textContent = `While the flooder sends, ${percent(sent - got, sent)} of the tenants' requests are rejected. ` +
    `The pool admits ${used.toFixed(1)} requests a second, ${(got / seconds).toFixed(1)} of them from tenants.` +
    (pool.guarantees && !fits ? " Ten such guarantees do not fit into the pool: a tenant within its own may be rejected." : "");
}
