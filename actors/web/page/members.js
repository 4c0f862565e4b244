// What is wrong, the summary, and a row for each member.

const rows = new Map(); // member -> its row; FREE is that of the items that nobody has
const FREE = "\u0000free";
let where = null;       // item -> member of the last reading; null: none yet
let latest = {status: null, holders: null};

function bar(e, parts, of) {
  while (e.children.length < parts.length) e.append(el("i"));
  while (e.children.length > parts.length) e.lastChild.remove();
  parts.forEach(([cls, n], i) => {
    if (e.children[i].className !== cls) e.children[i].className = cls;
    e.children[i].style.width = (of ? 100 * n / of : 0) + "%";
  });
}

// What is waited for has a countdown, and what is old its age; neither is read out each second.
let waits = [];
function countdown() {
  for (const w of waits) {
    const left = w.until - now();
    w.e.replaceChildren(...(w.since ? [span(Date.now() - w.since), el("small", {}, " ago")] :
      left > 0 ? [span(left), el("small", {}, " at the latest")] :
        [el("small", {}, left > -5000 ? "any moment" : "overdue by " + span(-left))]));
  }
}
function timer(time) {
  const e = el("span", {class: "left", "aria-hidden": "true"});
  waits.push({e, ...time});
  return e;
}

// doubted is a status without what is not known: a member to which something was done here may not
// run what it has said that it runs.
function doubted(status) {
  const states = {...status.work.states};
  const members = status.members.map(m => {
    const n = doneTo(m.id) && m.states?.running, own = {...m.states};
    if (!n) return m;
    for (const s of [own, states]) {
      s.running -= n;
      s[UNSURE] = (s[UNSURE] || 0) + n;
    }
    return {...m, states: own};
  });
  return {...status, members, work: {...status.work, states}};
}

const who = ids => ids.length < 7 ? list(ids.sort(naturally)) : count(ids.length, "member");

// marks are lines about what the rows of members say and no problem does.
function marks(status) {
  const said = new Map(), say = (id, text) => said.set(text, [...said.get(text) || [], id]);
  for (const id of acts.keys()) if (doneTo(id)) say(id, doneTo(id));
  for (const m of status.members) {
    if (m.status && m.status !== "alive") say(m.id, m.status);
    const failed = m.failed_items && !(status.problems || []).some(p =>
      p.kind === "failing-member" && p.text.includes(" " + m.id + ": "));
    if (failed) say(m.id, "where " + count(m.failed_items, "item") + " failed and went elsewhere");
  }
  return [...said].map(([text, ids]) => ["order", who(ids) + (ids.length === 1 ? " is " : " are ") +
    text + "."]);
}

// headline is one line about all. Its class is that of the worst that is known.
const WORST = ["bad", "wait", "order", "calm", "fine"];
function headline(status, lines) {
  const w = status.work, runs = w.states?.running || 0, all = runs === w.total;
  const old = Date.now() - lastGood > STALE, one = all && w.total === 1;
  const worst = WORST.find(c => lines.some(l => l[0] === c)) || (all && !old ? "fine" : "calm");
  if (!w.total) {
    return [worst, (lines.length ? "There is" : "Nothing is wrong. There is") +
      " no work yet: “" + command("work add", "ITEM") + "”."];
  }
  const some = one ? "The only item" : all ? "All " + number(w.total) + " items" :
    number(runs) + " of " + count(w.total, "item");
  const others = parts(w.states || {}).filter(p => p[2] !== "running")
    .map(p => number(p[1]) + " " + p[2]);
  return [worst, some + (old ? " ran when Consul was read last" : one ? " runs" : " run") +
    (all ? "" : "; " + list(others)) + ".", old && {since: lastGood}];
}

function showWrong(status) {
  const lines = marks(status);
  const orders = status.orders || [], given = o => "by " + (o && o.by || "an operator") +
    (o && o.at ? " at " + clock(Date.parse(o.at)) : "");
  if (status.frozen) {
    lines.push(["order", "Frozen " + given(orders.find(o => o.kind === "freeze")) +
      ": nothing is moved, placed or taken over until “" + command("thaw") + "”."]);
  }
  for (const p of status.problems || []) {
    if (status.frozen && p.kind === "brake") continue;
    const text = p.until ? p.text.replace(/, until [\d:]+ UTC at the latest$/, "") : p.text;
    lines.push([p.kind === "waiting" ? "wait" : p.kind === "brake" ? "order" : "bad",
      sentence(text), p.until && {until: Date.parse(p.until)}, p.items]);
  }
  if (status.unreadable) {
    lines.push(["bad", "Keys that this version cannot read are skipped: " +
      status.unreadable.join(", ")]);
  }
  const drained = [...status.drained || []];
  if (drained.length) {
    const left = [...status.members, ...(status.absent || [])].filter(m => drained.includes(m.id))
      .reduce((sum, m) => sum + m.items, 0), one = drained.length === 1;
    const drain = one && orders.find(o => o.kind === "drain"), end = Date.parse(drain?.deadline);
    lines.push(["order", who(drained) + (one ? " is" : " are") + " drained " + given(drain) + ": " +
      count(left, "item") + " still there" + (end > now() ? ", which are given up at once at " +
      clock(end) : "") + ". “" + command("undrain", one ? drained[0] : "MEMBER") + "” ends that."]);
  }
  const rank = line => WORST.indexOf(line[0]);
  lines.sort((a, b) => rank(a) - rank(b)).unshift(headline(status, lines));
  document.title = (rank(lines[0]) < 2 ? "● " : "") + status.service + " · coordd";
  const key = JSON.stringify(lines);
  if ($("wrong").dataset.key === key) return;
  $("wrong").dataset.key = key;
  waits = [];
  $("wrong").replaceChildren(...lines.map(([cls, text, time, items], i) => {
    const e = el("div", {class: cls + (i ? "" : " headline")}, el("span", {class: "text"}, text));
    if (time) e.append(timer(time));
    if (items && items.length) {
      e.append(el("button", {type: "button", "aria-label": "Why: " + items[0],
        onclick: () => openItem(items[0])}, "Why"));
    }
    return e;
  }));
  countdown();
}

function showWork(w) {
  const p = parts(w.states || {});
  bar($("total"), p, w.total);
  $("legend").replaceChildren(el("li", {}, el("b", {}, number(w.total)), " items"),
    ...p.map(([cls, n, what]) => el("li", {}, el("i", {class: cls}), el("b", {}, number(n)),
      " " + what)));
}

function rowOf(id) {
  let row = rows.get(id);
  if (row) return row;
  row = {id, name: id === FREE ? "Free" : id, held: []};
  row.root = el("div", {class: "member", role: "listitem", "aria-label": row.name});
  row.who = el("div", {class: "who"});
  row.bar = el("div", {class: "bar", "aria-hidden": "true"});
  row.load = el("div", {class: "load"});
  row.more = el("div", {class: "more"});
  row.acts = el("div", {class: "acts"});
  row.tiles = el("div", {class: "tiles"});
  const head = el("div", {class: "head"}, row.who, row.bar, row.load, row.more);
  row.root.append(head, row.acts, row.tiles);
  rows.set(id, row);
  row.root.row = row;
  sight.observe(row.root);
  return row;
}
function drop(id, row) {
  sight.unobserve(row.root);
  row.root.remove();
  rows.delete(id);
}

// What stands beside a member's name.
function tagsOf(m, leader) {
  const all = [], n = m.states || {}, verb = (k, one, many) => k + " " + (k === 1 ? one : many);
  if (leader) all.push(["leads", "run"]);
  if (doneTo(m.id)) all.push([doneTo(m.id), "stop"]);
  if (m.status === "gone") all.push(["gone: its items wait for it", "wait"]);
  else if (m.status && m.status !== "alive") all.push([m.status, "stop"]);
  if (m.silent_since) {
    all.push(["silent since " + clock(Date.parse(m.silent_since)),
      m.status === "gone" ? "wait" : "loop"]);
  }
  if (m.warns) all.push(["cannot say what its work does", "loop"]);
  if (m.drained) all.push(["drained", "stop"]);
  if (m.idle) all.push(["runs nothing", ""]);
  if (n["crash-looping"]) all.push([verb(n["crash-looping"], "loops", "loop"), "loop"]);
  if (n.quarantined) all.push([n.quarantined + " quarantined", "loop"]);
  if (n.starting) all.push([verb(n.starting, "starts", "start"), "start"]);
  if (n.stopping) all.push([verb(n.stopping, "stops", "stop"), "stop"]);
  if (n.waiting && m.status !== "gone") all.push([verb(n.waiting, "waits", "wait"), "wait"]);
  if (m.failed_items) all.push([count(m.failed_items, "item") + " failed here", "stop"]);
  return all;
}

// loadOf is what counts where items are shared out: their weight.
const loadOf = m => m.load || m.items;

function fillRow(row, m, leader, most, weighed) {
  fillActs(row);
  const load = loadOf(m), full = m.capacity && load >= m.capacity;
  const key = JSON.stringify([m, leader, most, weighed, doneTo(m.id)]);
  if (row.key === key) return;
  row.key = key;
  row.root.classList.toggle("gone", m.status === "gone" || row.id === FREE);
  row.root.classList.toggle("drained", !!m.drained);
  const name = row.id === FREE ? el("b", {}, "Free") :
    el("button", {type: "button", "data-member": m.id, title: m.id}, m.id);
  const free = row.id === FREE ? [["no member has them", "free"]] : [];
  const about = [...free, ...tagsOf(m, leader)];
  row.who.replaceChildren(name, ...about.map(([text, cls]) => el("span", {class: "tag " + cls},
    text)));
  bar(row.bar, parts(m.states || {}).map(([cls, n]) => [cls, n * load / m.items]),
    m.capacity || most);
  row.load.replaceChildren(el("b", {}, number(load)), m.capacity ?
    " of " + number(m.capacity) + (full ? ", full" : "") : weighed ? " load" :
      m.items === 1 ? " item" : " items",
  ...(weighed ? [el("small", {}, " " + count(m.items, "item"))] : []));
  row.more.textContent = [m.zone, m.version, m.lease_ms && "lease " + span(m.lease_ms)]
    .filter(Boolean).join(" · ");
  row.more.title = [row.more.textContent, m.address && "address " + m.address].filter(Boolean)
    .join(", ");
}

// heldBy is what a member has: items and their states, by name.
function heldBy(h) {
  const state = new Map();
  for (const i of h.own) state.set(i, doneTo(h.id) ? UNSURE : "running");
  for (const i of h.releasing) state.set(i, "stopping");
  for (const [s, items] of Object.entries(h.states || {})) for (const i of items) state.set(i, s);
  return inOrder([...state]);
}
function inOrder(held) {
  return held.map(h => [naturalKey(h[0]), h])
    .sort((a, b) => a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : naturally(a[1][0], b[1][0]))
    .map(h => h[1]);
}
const sameIDs = (x, y) => x === y || x.length === y.length && x.every((id, i) => id === y[i]);
// sameHolder tells whether two answers say the same of a member. Most have what they had a second
// ago.
function sameHolder(x, y) {
  if (x === y) return true;
  if (!x || !sameIDs(x.own, y.own) || !sameIDs(x.releasing, y.releasing)) return false;
  const a = Object.entries(x.states || {}), b = Object.entries(y.states || {});
  return a.length === b.length && a.every(([s, ids], i) => s === b[i][0] && sameIDs(ids, b[i][1]));
}

// freeHolder is what nobody has, as if it were a member.
const freeHolder = holders => {
  const shut = new Set(holders.quarantined || []);
  return {id: FREE, own: [], releasing: [], states: {
    free: holders.free.filter(i => !shut.has(i)), quarantined: [...shut]}};
};

// sorted makes from an answer what each row is to have, and where each item is. It takes a row
// after the other, and lets the browser do other things in between.
async function sorted(holders) {
  const whose = [...holders.members, ...(holders.free.length ? [freeHolder(holders)] : [])];
  const all = [], next = new Map();
  let same = !!where;
  for (const h of whose) {
    const row = rows.get(h.id), done = doneTo(h.id);
    const known = row && row.done === done && sameHolder(row.source, h);
    same = same && known;
    all.push({h, source: h, done, held: known ? row.held : heldBy(h), changed: !known});
    await breathe();
  }
  const named = new Set(whose.map(h => h.id));
  if (same && [...rows.values()].every(r => named.has(r.id) || !r.held.length)) {
    return {all, next: where};
  }
  for (const {h, held} of all) {
    const id = h.id === FREE ? "" : h.id;
    for (const [item] of held) next.set(item, id);
    await breathe();
  }
  return {all, next};
}

async function showMembers(status, holders) {
  const {all, next} = await sorted(holders), before = where;
  const news = [];
  if (before && before !== next) {
    for (const {h, held, changed} of all) {
      if (!changed) continue;
      const id = h.id === FREE ? "" : h.id;
      for (const [item] of held) if (before.get(item) !== id) news.push(item);
      await breathe();
    }
  }

  // From here on it is one change, which is seen as a whole.
  const at = Date.now(), resized = (total <= LABELLED) !== (next.size <= LABELLED);
  const anew = resized || total !== next.size, travel = leaving(news, next, resized);
  for (const item of news) moved.set(item, at);
  for (const item of moved.keys()) if (!next.has(item)) moved.delete(item);
  if (news.length) setTimeout(settle, FRESH + 100);
  total = next.size;
  where = next;
  head = total <= LABELLED ? commonHead([...next.keys()]) : "";

  const shown = all.map(s => ({...s, row: rowOf(s.h.id)})), has = new Set(all.map(s => s.h.id));
  for (const id of acts.keys()) {
    if (has.has(id)) continue;
    const row = rowOf(id);
    shown.push({row, h: {id, own: []}, source: null, held: [], changed: row.held.length > 0});
  }
  // What nobody has comes last.
  shown.sort((a, b) => (a.h.id === FREE) - (b.h.id === FREE) || naturally(a.h.id, b.h.id));
  const box = $("members"), dense = shown.length > 20;
  if (box.classList.contains("dense") !== dense) {
    box.classList.toggle("dense", dense);
    measured = null;
  }
  let here = box.firstChild;
  for (const s of shown) {
    if (s.row.root === here) here = here.nextSibling; else box.insertBefore(s.row.root, here);
    s.row.held = s.held;
    s.row.source = s.source;
    s.row.done = s.done;
  }
  const kept = new Set(shown.map(s => s.row));
  for (const [id, row] of rows) if (!kept.has(row)) drop(id, row);
  if (!shown.length) {
    box.replaceChildren(el("p", {}, "No members are registered, and there is no work."));
  } else box.querySelector(":scope > p")?.remove();
  fillRows(status, shown);
  land(travel, shown.filter(s => s.changed || anew).map(s => s.row));
}

// fillRows writes the heads of all rows.
function fillRows(status, shown) {
  const details = new Map([...status.members, ...(status.absent || [])].map(m => [m.id, m]));
  const weighed = [...details.values()].some(m => m.load);
  const most = Math.max(1, ...shown.map(s => s.held.length), ...[...details.values()].map(loadOf));
  const leader = status.leader ? status.leader.id : "";
  $("scale").hidden = !weighed;
  for (const {row, h} of shown) {
    const m = h.id === FREE ? {id: FREE, items: row.held.length, states:
      {free: h.states.free.length, quarantined: h.states.quarantined.length}} :
      details.get(h.id) || {id: h.id, status: h.status, items: h.own.length};
    fillRow(row, m, m.id === leader, most, weighed);
  }
}

// settle takes the mark from tiles that have moved a while ago.
function settle() {
  const of = new Set();
  for (const [item, t] of moved) {
    if (Date.now() - t <= FRESH) continue;
    moved.delete(item);
    of.add(rows.get(where.get(item) || FREE));
  }
  for (const row of of) if (row) fillTiles(row);
}
function redraw() { for (const row of rows.values()) fillTiles(row); }

async function show(status, holders) {
  status = doubted(status);
  $("service").textContent = status.service;
  const n = status.members.length;
  $("facts").replaceChildren(
    el("span", {}, ...(status.leader ? [el("b", {}, status.leader.id), " leads"] :
      ["nobody leads"])),
    el("span", {}, el("b", {}, number(n)), n === 1 ? " member" : " members"),
    ...(status.pins ? [el("span", {}, el("b", {}, number(status.pins)), " pinned")] : []));
  showWrong(status);
  showWork(status.work);
  document.body.classList.remove("old", "empty");
  if (holders) await showMembers(status, holders);
}
