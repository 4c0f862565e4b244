// The words, and what all other parts use.

const $ = id => document.getElementById(id);

// What becomes of an item: its class, the word for it, and what a tile says beside the id. An item
// is "unknown" if it is not known what its work does: its member does not say, or is silent.
const STATES = {
  "running": ["run", "running", ""],
  "unknown": ["own", "not known to run", "?"],
  "starting": ["start", "starting", "starts"],
  "crash-looping": ["loop", "crash-looping", "loops"],
  "failing-check": ["loop", "failing its check", "fails its check"],
  "stopping": ["stop", "stopping", "stops"],
  "stuck": ["loop", "stuck", "does not stop"],
  "waiting": ["wait", "waiting", "waits"],
  "quarantined": ["loop", "quarantined", "quarantined"],
  "free": ["free", "free", ""],
};
const ORDER = ["running", "unknown", "starting", "crash-looping", "failing-check", "stuck",
  "quarantined", "stopping", "waiting", "free"];
const UNSURE = Object.keys(STATES).find(s => STATES[s][0] === "own");
const stateOf = s => STATES[s] || ["own", s, s];
// parts are the states with their numbers, those that this page does not know at the end.
const parts = counts => [...ORDER, ...Object.keys(counts).filter(s => !STATES[s])]
  .filter(s => counts[s] > 0).map(s => [stateOf(s)[0], counts[s], stateOf(s)[1]]);

// el makes an element: class, role and aria-… are attributes, all else is a property.
function el(tag, set = {}, ...kids) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(set)) {
    if (/^(class|role|aria-.*|data-.*)$/.test(name)) e.setAttribute(name, value);
    else e[name] = value;
  }
  e.append(...kids);
  return e;
}

// People count n2 before n10. The keys are kept: there may be 100,000 of them.
const naturalKeys = new Map();
function naturalKey(id) {
  let key = naturalKeys.get(id);
  if (key === undefined) {
    if (naturalKeys.size > 300000) naturalKeys.clear();
    naturalKeys.set(id, key = id.replace(/\d+/g, digits => digits.padStart(15, "0")));
  }
  return key;
}
function naturally(a, b) {
  const x = naturalKey(a), y = naturalKey(b);
  return x < y ? -1 : x > y ? 1 : a < b ? -1 : a > b ? 1 : 0;
}

const number = n => n.toLocaleString("en");
const count = (n, what) => number(n) + " " + what + (n === 1 ? "" : "s");

// The times here are those of the leader's clock and of this coordd's, which are about the same;
// that of the browser may be another. skew is how far it is behind.
let skew = 0;
const now = () => Date.now() + skew;
function clock(t) {
  return new Date(t).toLocaleTimeString([], {hour: "2-digit", minute: "2-digit", second: "2-digit",
    hour12: false});
}
function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min" + (s < 600 ? " " + s % 60 + " s" : "");
  if (s < 172800) return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
  return Math.floor(s / 86400) + " days";
}
// capital is for a sentence that does not begin with an id.
const capital = text => {
  const first = text.split(/[ ,:]/, 1)[0], id = rows.has(first) || where?.has(first);
  return /^[a-z]+$/.test(first) && !id ? text[0].toUpperCase() + text.slice(1) : text;
};
const sentence = text => capital(text) + (/[….!?]$/.test(text) ? "" : ".");

// command is one to type in a shell, for the service that is shown.
const word = text => /^[\w.,:@%+=-]+$/.test(text) ? text :
  "'" + text.replaceAll("'", "'\\''") + "'";
function command(order, ...ids) {
  const of = "--service " + word(latest.status.service), names = ids.map(word).join(" ");
  return "coordd " + order + " " + (ids.some(id => id.startsWith("-")) ? of + " -- " + names :
    (names && names + " ") + of);
}

// list is "a", "a and b", or "a, b and c".
function list(texts) {
  if (texts.length < 2) return texts.join("");
  return texts.slice(0, -1).join(", ") + " and " + texts[texts.length - 1];
}

// breathe lets the browser do other things when one task has taken a while: a click, a frame.
const BREATH = 12; // ms
let breathed = 0;
async function breathe() {
  if (performance.now() - breathed < BREATH) return;
  await (globalThis.scheduler?.yield ? scheduler.yield() : new Promise(go => setTimeout(go)));
  breathed = performance.now();
}

const still = matchMedia("(prefers-reduced-motion: reduce)");

// announce says something to who does not see the page; more within a moment is said together.
let toSay = [];
function announce(text) {
  if (toSay.push(text) > 1) return;
  setTimeout(() => {
    const more = toSay.length - 3;
    $("live").textContent = toSay.slice(0, 3).join(". ") +
      (more > 0 ? ". And " + more + " more." : "");
    toSay = [];
  }, 800);
}

// get asks this coordd. It gives undefined for what has not changed since the last answer, unless
// whole is set.
const tags = new Map();
let age = 0; // of what the last status was made of, in ms
const why = e => e.cause === "said" ? e.message : "This coordd does not answer";
async function get(path, whole) {
  const answer = await fetch(path, {cache: "no-cache", signal: AbortSignal.timeout(15000)});
  if (path === "v1/status") age = 1000 * (answer.headers.get("Age") || 0);
  const date = Date.parse(answer.headers.get("Date") || "");
  if (date) {
    const seen = date + 500 - Date.now(); // the header has whole seconds
    skew = Math.abs(seen - skew) > 1500 ? seen : skew;
  }
  const tag = answer.headers.get("ETag");
  if (answer.ok && tag && tags.get(path) === tag && !whole) return undefined;
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error || answer.statusText, {cause: "said"});
  if (!whole) tags.set(path, tag);
  return body;
}
